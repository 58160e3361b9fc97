// The doubt about a pair of signals: where the distance form may have lost digits.
//
// A pixel pair's E = (D + |q1 − q2|/2)/√a, in mean variances of the layer, a = min(w, 2 − w), is
// the error of κ0 in rounding units (scaling.DOUBTFUL). Doubtful pixel pairs are those with
// E >= DOUBTFUL. Their E, rounded down to whole numbers, are summed; so sums have no order. The
// pair of signals is computed again from deficits where the sum is too large (doubt.py).
//
// E changes slowly from layer to layer. So only layers 2, 8, 32, ... look at it: each stands for
// the layers near it (doubt.py).

#include "rows.h"

// The sum of E of doubtful pixel pairs of a segment, times the pixels' weights. Pairs with
// g = 0 have no angle, and count nothing.
// Single precision is enough for E.
template <int N, class real>
HD double doubt_of(
    const real (&g)[N], const real (&h)[N], const real (&w)[N], real scale,
    const double *weights)
{
    // eps²: below, w is a tie's rounding error, which does no harm where D and |q1 − q2| are of
    // order eps themselves, as for copies of a signal.
    constexpr float least = sizeof(real) == 4 ? 1.4e-14f : 4.9e-32f;
    float E[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float g_ = float(g[k]), h_ = float(h[k]), w_ = float(w[k]), z = h_ * h_;
        // |q1 − q2|/2 = |h| (√(q1/2) + √(q2/2)), where the sum of roots is √(z + 2g).
        const float sum_of_roots = square_root(fused(2.0f, g_, z));
        const float total = fused(fabsf(h_), sum_of_roots, fused(g_, w_, z));
        const float a = fmaxf(fminf(w_, 2.0f - w_), least);
        const float found = g_ > 0.0f ? total * float(scale) * inverse_root_seed(a) : 0.0f;
        E[k] = found >= float(DOUBTFUL) ? floorf(fminf(found, float(MOST_E))) : 0.0f;
    }
    if (!weights) {
        float sum = 0.0f;  // exact: at most 12 numbers up to MOST_E = 2^20
#pragma unroll
        for (int k = 0; k < N; ++k)
            sum += E[k];
        return sum;
    }
    double sum = 0.0;
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (E[k] > 0.0f)
            sum += weights[k] * E[k];
    return sum;
}
