// The doubt about a pair of signals: where the distance form may have lost digits.
//
// The error of κ0 at a pixel pair is E = (D + |q1 − q2|/2)/√a rounding units, with a = min(w, 2 − w)
// and D, q1, q2 in mean variances of the layer (doubt.DOUBTFUL). E is rounded down to a multiple of DOUBTFUL,
// so that it is 0 for pixel pairs without doubt, and sums have no order. The pair of signals is
// computed again from deficits where the sum is too large (engine.py).
//
// E changes slowly from layer to layer. So only layers 2, 8, 32, ... look at it: each stands for
// the layers near it (launch_plan.py).

#include "rows.h"

// The sum of E / DOUBTFUL of a segment's pixel pairs, times the pixels' weights. `scale` is
// 1 / (DOUBTFUL · mean variance). Below the a of `tied`, E is large unless q1 = q2. No E exceeds
// MOST_E or 2^23 / DOUBTFUL, so that single precision adds up E of 16 pixel pairs exactly. Pixel
// pairs with g = 0 have no angle and count nothing.
template <int N, class real>
HD double doubt_of(
    const real (&g)[N], const real (&h)[N], const real (&w)[N], real scale, real tied,
    const double *weights)
{
    constexpr float most = (MOST_E < 8388608.0 ? MOST_E : 8388608.0) / DOUBTFUL;
    constexpr float least = 1e-37f;  // keeps 1/√a finite
    float E[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float g_ = float(g[k]), h_ = float(h[k]), w_ = float(w[k]), z = h_ * h_;
        // |q1 − q2|/2 = |h| (√(q1/2) + √(q2/2)), where the sum of roots is √(z + 2g).
        const float sum_of_roots = square_root(fused(2.0f, g_, z));
        const float total = fused(fabsf(h_), sum_of_roots, fused(g_, w_, z));
        const float nearest = fminf(w_, 2.0f - w_), a = nearest < float(tied) ? least : nearest;
        const float found = g_ > 0.0f ? total * float(scale) * inverse_root_seed(a) : 0.0f;
        // NaN stays NaN and is not a doubt: a computation from deficits would hide the fault.
        E[k] = floorf(found > most ? most : found);
    }
    if (!weights) {
        static_assert(N <= 16, "sums of whole numbers up to 2^20 are exact");
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < N; ++k)
            sum += E[k];
        return sum;
    }
    double sum = 0.0;
#pragma unroll
    for (int k = 0; k < N; ++k)
        sum += E[k] > 0.0f ? weights[k] * E[k] : 0.0;
    return sum;
}
