// One segment's way through a layer: from window sums of its state to the branch of the next layer.
//
// The steps of a layer:
//
//     w = 1 − ρ = (box(D) − z) / g                         correlate
//     K, D_K, K̇ = dual activation of w                     dual (activations.h)
//     A_g = (i − r) Σ + box(A) + (t + r) box(F⁰)           tangent_g
//     A ← A + box(K̇ ⊙ A_g + (o + r) K)                     tangent_branch, add_branch
//     D ← D + box(D_K),  F ← F + box(K)                    add_branch
//
// A and F are carried without the part of F⁰. Results get it once, after the last layer: layers
// that add small branches to F⁰ would round alike.
//
// Boxes, and so `add_branch`, depend on where a row is kept (short_rows.cu, long_rows.cu).

#include "doubt.h"

// D, A and F (reference.py) of a segment's pixel pairs. Where only the sum of F over pixels is
// wanted, F is not filtered: a filter would multiply its sum by the filter's size.
template <int P, class real> struct State {
    real distance[P], tangent[P], features[P];
};

// What `add_branch` filters and adds to D, F and A: D_K, K and K̇ ⊙ A_g + (o + r) K.
template <int P, class real> struct Branches {
    real branch_distance[P], K[P], tangent_branch[P];
};

// Multiply a state by the layer's skip_scale, where that is not 1.
template <int P, class real>
__device__ __forceinline__ void scale(State<P, real> &state, real skip_scale)
{
    if (skip_scale == 1)
        return;
#pragma unroll
    for (int j = 0; j < P; ++j) {
        state.distance[j] *= skip_scale;
        state.tangent[j] *= skip_scale;
        state.features[j] *= skip_scale;
    }
}

template <int P, class real> HD void set_0(real (&state)[P])
{
#pragma unroll
    for (int j = 0; j < P; ++j)
        state[j] = 0;
}

template <int P, class real> HD void copy(const real (&from)[P], real (&to)[P])
{
#pragma unroll
    for (int j = 0; j < P; ++j)
        to[j] = from[j];
}

template <int P, class real>
__device__ __forceinline__ void add(real (&state)[P], real factor, const real (&added)[P])
{
#pragma unroll
    for (int j = 0; j < P; ++j)
        state[j] = fused(factor, added[j], state[j]);
}

// ---------------------------------------------------------------- the steps of a pixel pair

// w = 1 − ρ = (box(D) − z) / g of the pre-activations.
template <class real> HD real correlate(const PixelPair<real> &pair, real distance)
{
    return fused(-pair.h, pair.h, distance) * pair.inverse_g;
}

// A_g = (i − r) Σ + box(A), the tangent kernel of the pre-activations; Σ = g − g w.
template <class Net, class real>
HD real tangent_g(const Trained<real> &trained, const Correlation<real> &at, real tangent)
{
    return Net::INNER_DIFFERS ? fused(trained.inner_minus_readout, at.g - at.g * at.w, tangent)
                              : tangent;
}

// K̇ ⊙ A_g, without rounding a κ0 near 1: angles hardly change there from layer to layer.
template <class real>
HD real times_slope(const Layer<real> &layer, const Dual<real> &result, real tangent_g)
{
#ifdef LINEAR_SHARE
    const real opposite = layer.linear_share * tangent_g;
#else
    const real opposite = 0;
#endif
    if (sizeof(real) == 8)  // the FP64 units are the bottleneck: selections are not theirs
        return fused(with_sign(result.k0, result.acute), tangent_g,
                     result.acute ? tangent_g : opposite);
    return result.acute ? fused(-result.k0, tangent_g, tangent_g)
                        : fused(result.k0, tangent_g, opposite);
}

// K̇ ⊙ A_g + (o + r) K, the branch of A before the outer filter's box; `turned` is K̇ ⊙ A_g.
template <class real>
HD real tangent_branch(const Dual<real> &result, real turned, real outer_plus_readout)
{
    return fused(outer_plus_readout, result.K, turned);
}

// Set the branches of pixel pair j from its pre-activations; `tangent` is box(A) + (t + r) box(F⁰).
template <class Net, int P, class real>
HD void set_branches(
    Branches<P, real> &branches, int j, const Layer<real> &constants,
    const Trained<real> &trained, const Correlation<real> &at, real tangent)
{
    const Dual<real> result = dual<Net::NTK>(constants, at);
    branches.branch_distance[j] = result.branch_distance;
    branches.K[j] = result.K;
    branches.tangent_branch[j] = 0;
    if (Net::NTK) {
        const real turned = times_slope(constants, result, tangent_g<Net>(trained, at, tangent));
        branches.tangent_branch[j] = tangent_branch(result, turned, trained.outer_plus_readout);
    }
}

// ---------------------------------------------------------------- the input and the first layer

// Features whose squares are added up one by one; the sums of blocks are added by Kahan's
// summation. More features in a block lose more digits, by half a unit each at most.
constexpr int BLOCK_OF_FEATURES = 16;

// |û − v̂|²/2 of the input's pixels; or |û + v̂|²/2, with OPPOSITE. The order of terms is fixed.
template <bool OPPOSITE, int P, class real>
__device__ __forceinline__ void half_squares(
    const Job<real> &job, const SegmentTables<real> &tables, real (&out)[P])
{
    real missing[P];
#pragma unroll
    for (int j = 0; j < P; ++j)
        out[j] = missing[j] = 0;
    const real *left = tables.left_units, *right = tables.right_units;
    for (int c = 0; c < job.features;) {
        real block[P];
#pragma unroll
        for (int j = 0; j < P; ++j)
            block[j] = 0;
        const int rest = job.features - c;
        const int end = c + (rest < BLOCK_OF_FEATURES ? rest : BLOCK_OF_FEATURES);
#pragma unroll 1
        for (; c < end; ++c) {
#pragma unroll
            for (int j = 0; j < P; ++j) {
                const real one = load(left + j * tables.segments);
                const real other = load(right + j * tables.segments);
                const real term = OPPOSITE ? one + other : one - other;
                block[j] = fused(term, term, block[j]);
            }
            left += tables.left_layer;
            right += tables.right_layer;
        }
#pragma unroll
        for (int j = 0; j < P; ++j) {
            const real term = block[j] + missing[j], sum = out[j] + term;
            missing[j] = term - (sum - out[j]);
            out[j] = sum;
        }
    }
#pragma unroll
    for (int j = 0; j < P; ++j)
        out[j] *= real(0.5);
}

// w = 1 − ρ of the input's pixels, from differences of their unit vectors; and v = 1 + ρ. Where
// 2 − w has lost its digits, v comes from sums of the unit vectors.
template <int P, class real>
__device__ __forceinline__ void correlate_input(
    const Job<real> &job, const SegmentTables<real> &tables, real (&w)[P], real (&v)[P])
{
    half_squares<false>(job, tables, w);
    bool opposed = false;
#pragma unroll
    for (int j = 0; j < P; ++j) {
        v[j] = 0;
        opposed = opposed || w[j] > job.opposite;
    }
    if (opposed)
        half_squares<true>(job, tables, v);
#pragma unroll
    for (int j = 0; j < P; ++j)
        v[j] = w[j] > job.opposite ? v[j] : 2 - w[j];
}

// The factor of F⁰ in a layer's results of a kind.
template <class real> HD real linear_factor(const Layer<real> &layer, int kind)
{
    return kind == 0 ? layer.linear_in_gpk : layer.linear_in_ntk;
}

// F⁰ = g − g w of the input's features, for a layer's results; 0 where they take none. It is
// computed anew, because layers need the registers.
template <int P, class real>
__device__ __forceinline__ void input_features(
    const Job<real> &job, const SegmentTables<real> &tables, const Layer<real> &layer,
    real (&linear)[P])
{
    set_0(linear);
    if (linear_factor(layer, 0) == 0 && linear_factor(layer, 1) == 0)
        return;
    half_squares<false>(job, tables, linear);
#pragma unroll
    for (int j = 0; j < P; ++j) {
        const real g = tables.at(j).g;
        linear[j] = g - g * linear[j];
    }
}

// The branch of layer 1, whose inner filter has size 1; and of the input's features F⁰ = g − g w
// and D = z + g w.
template <class Net, int P, class real>
__device__ __forceinline__ void first_layer(
    const Job<real> &job, SegmentTables<real> &tables, State<P, real> &state,
    Branches<P, real> &branches, real (&linear)[P])
{
    real w[P], v[P];
    correlate_input(job, tables, w, v);
#pragma unroll
    for (int j = 0; j < P; ++j) {
        const PixelPair<real> pair = tables.at(j);
        const real deficit = pair.g * w[j];
        state.distance[j] = fused(pair.h, pair.h, deficit);
        linear[j] = pair.g - deficit;
    }
    set_0(state.tangent);
    set_0(state.features);
    tables.skip(1);
#pragma unroll
    for (int j = 0; j < P; ++j) {
        const PixelPair<real> pair = tables.at(j);
        set_branches<Net>(
            branches, j, job.layers[1], job.trained, {pair.g, pair.h, w[j], v[j]},
            job.layers[1].linear_scale * linear[j]);
    }
}

// ---------------------------------------------------------------- further layers

// The branches of a layer, from box(D) and box(A); and its pixel pairs' E, added to `doubt`.
// Rows that are not `valid` repeat another row, whose E counts once.
template <class Net, int P, class real>
__device__ __forceinline__ void next_layer(
    const Job<real> &job, const SegmentTables<real> &tables, int layer, int segment,
    bool short_segment, bool valid, const real (&distance)[P], const real (&tangent)[P],
    Branches<P, real> &branches, double &doubt)
{
    // Many pixels go through in equal parts: g, h and w take registers beside the state. Parts have
    // at most 48 bytes of each (12 float32, 6 float64): a larger number spills.
    constexpr int most = 48 / sizeof(real), parts = (P + most - 1) / most;
    constexpr int part = (P + parts - 1) / parts;
    const real doubt_weight = valid ? job.layers[layer].doubt_weight : real(0);
#pragma unroll
    for (int first = 0; first < P; first += part) {
        real g[part], h[part], w[part];
#pragma unroll
        for (int k = 0; k < part; ++k) {
            const int j = first + k;
            if (j >= P) {
                g[k] = h[k] = w[k] = 0;
                continue;
            }
            const PixelPair<real> pair = tables.at(j);
            g[k] = pair.g;
            h[k] = pair.h;
            w[k] = correlate(pair, distance[j]);
        }
        if (doubt_weight != 0) {  // few layers
            const int begins = segments_of<P>(job).begin(segment) + first;
            if (short_segment && first + part >= P)
                g[P - 1 - first] = 0;  // an idle register
            doubt += doubt_weight * doubt_of(
                g, h, w, job.layers[layer].doubt_scale, job.layers[layer].tied,
                job.doubt_weights ? job.doubt_weights + begins : nullptr);
        }
#pragma unroll
        for (int k = 0; k < part; ++k) {
            const int j = first + k;
            if (j >= P)
                continue;
            set_branches<Net>(
                branches, j, job.layers[layer], job.trained, {g[k], h[k], w[k], 2 - w[k]},
                tangent[j]);
        }
    }
}
