// The dual activation of one pixel pair, ReLU's, from distances: the step `dual` of a layer
// (layers.h).
//
// Notation: q1 and q2 are the variances of the two pixels, ρ is their correlation.
// g = √(q1 q2); w = 1 − ρ; v = 1 + ρ.
// h = √(q1/2) − √(q2/2); z = h²; D = (q1 + q2)/2 − covariance. The covariance Σ is g − g w.

#include "numbers.h"

// One pixel's table in one layer: √(2q) for a left signal, √(q/2) for a right signal; and 1/√q.
template <class real> struct alignas(2 * sizeof(real)) PixelRoots {
    real root, inverse_root;
};

// Constants of one layer. structs.py has the same fields.
template <class real> struct Layer {
    real branch_scale;  // factor of the branch's window sums: α² c_v c_w / (2 · both filters' sizes)
    real skip_scale;    // factor of the state before the branch is added; 0 without skip
    real linear_scale;  // factor of box(F⁰) in A_g: t + r times a power of two
    real linear_in_gpk, linear_in_ntk;  // factors of F⁰ in the layer's results; 0 for GAP
    real doubt_scale;   // 1 / (DOUBTFUL · mean variance): the unit of E (doubt.h)
    real doubt_weight;  // DOUBTFUL times the layers that E stands for; 0: E is not looked at
    real tied;          // below this a = min(w, 2 − w) windows may be proportional
    real linear_share;  // λ = 2s/(1 + s²), the share of the linear network in a leaky ReLU; else 0
    int slot;           // which result the layer is, or −1
    int step;           // pixels from one tap of the layer's filters to the next
};

// Trained parts as numbers (network.TrainedParts).
template <class real> struct Trained {
    real inner_minus_readout;  // i − r
    real outer_plus_readout;   // o + r
};

// One pixel pair's pre-activations.
template <class real> struct Correlation {
    real g, h, w, v;
};

// One pixel pair's dual activation.
template <class real> struct Dual {
    real branch_distance;  // D_K
    real K;                // E[σ(u)σ(v)]
    real k0;               // κ0 is 1 − k0 where `acute`, else λ + k0
    bool acute;            // whether the angle between the pixels is
};

// ReLU, without the factor c_v/2:
//     1 − κ1 = w − k1 for w < 1, else 1 − k1;  κ0 = 1 − k0 for w < 1, else k0;
//     D_K = z + g (1 − κ1),  K = g κ1,  K̇ = κ0,
// with a = min(w, v), k0 = √a p(a), k1 = a^{3/2} r(a). A leaky ReLU has κ0 + λ (1 − κ0),
// 1 − κ1 + λ (w − (1 − κ1)) and the factor c_v (1 + s²)/2. Its two lines are compiled only for it:
// in other kernels they would cost every pixel pair a tenth of its instructions.
template <bool NTK, class real>
HD Dual<real> dual(const Layer<real> &layer, const Correlation<real> &at)
{
    const bool acute = below_one(at.w);  // the angle between the pixels
    const real a = at_least_0(acute ? at.w : at.v);
    const real root = square_root(a);
    real one_minus_kappa1 = fused(-(root * a), r_poly(a), acute ? at.w : real(1));
#ifdef LINEAR_SHARE
    one_minus_kappa1 += layer.linear_share * (at.w - one_minus_kappa1);
#endif
    const real deficit = at.g * one_minus_kappa1;
    Dual<real> result;
    result.branch_distance = fused(at.h, at.h, deficit);
    result.K = at.g - deficit;
    result.acute = acute;
    result.k0 = NTK ? root * p_poly(a) : real(0);
#ifdef LINEAR_SHARE
    result.k0 -= layer.linear_share * result.k0;
#endif
    return result;
}
