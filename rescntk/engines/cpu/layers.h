// The operations of a layer on a strip: normalization, convolutions, biases, the activation and the
// skip connection.
//
// The parameters of templates are
//
//   CARRIES_U_PLUS  whether U+ is carried from layer to layer (`has_U_plus` of the job);
//   WITH_U_PLUS     whether an operation computes U+, as all do before the activation of layer 1;
//   NTK             whether A is carried;
//   FIRST           whether the layer is layer 1;
//   TAPS, TRIANGLE  the taps of a convolution (`Taps`), and whether their weights are 1 2 3 2 1;
//   FORM            the form of the sum of features and branch.
#pragma once
#include "joined.h"

namespace
{
// Up to so many channels, both deficits of the input are always computed as sums of squares.
constexpr int64 FEW_CHANNELS = 4;

// The taps of a convolution at consecutive vectors. TAPS is their number, or 0 if the compiler does
// not know it.
template <class V, int TAPS>
struct Taps {
    const int *vectors;
    int64 n, n_taps;
    int64 shift[TAPS ? TAPS : 1] = {};

    INLINE Taps(const Layout &layout, int64 convolution, int64 from)
        : vectors(layout.tap_vectors[convolution]), n(layout.n),
          n_taps(TAPS ? TAPS : layout.job.convolutions[convolution].n_taps)
    {
        UNROLL
        for (int t = 0; t < TAPS; t++) shift[t] = vectors[t * n + from] - from;
    }
    INLINE V tap(const V *values, int64 j, int64 t) const
    {
        return values[TAPS ? j + shift[t] : vectors[t * n + j]];
    }
    // The sum of tap t and its mirror image on the other side of the middle tap.
    INLINE V pair(const V *values, int64 j, int64 t) const
    {
        return tap(values, j, t) + tap(values, j, n_taps - 1 - t);
    }
    // The sum over all taps of their differences from the middle tap.
    INLINE V differences(const V *values, int64 j) const
    {
        const V middle = values[j];
        auto add = [&](int64 t, V sum) INLINED {
            const V two = pair(values, j, t);
            return sum + fused(number<V>(-2.0), middle, two);
        };
        if (!TAPS) return sum_between<1, V>(0, n_taps / 2, add);
        V sum{};
        UNROLL
        for (int64 t = 0; t < TAPS / 2; t++) sum = add(t, sum);
        return sum;
    }
    // The sum of five taps with the weights 1 2 3 2 1.
    INLINE V triangle(const V *values, int64 j) const
    {
        const V two = number<V>(2.0);
        return fused(number<V>(3.0), values[j], fused(two, pair(values, j, 1), pair(values, j, 0)));
    }
};

template <class R, bool CARRIES_U_PLUS, bool NTK>
struct Layers {
    using V = typename Lanes<R>::V;
    static constexpr int LANES = Lanes<R>::LANES;
    const Job &job;
    bool has_pixel_results;  // the head is PIXEL_1 or PIXELS

    explicit Layers(const Job &job) : job(job), has_pixel_results(is_of_pixels(job.output)) {}

    // Set U, U+ and A after the input filter, and the sums of F0, which are those of layer 0.
    void enter(Strip<R> &strip) const
    {
        strip.begin = 0;
        strip.end = strip.layout->n;
        if (!job.n_input) return add_F0<true>(strip);
        strip.runs([&](const Rows<R> &rows, int64 j, int64 to) INLINED {
            for (; j < to; j++) put<true, NTK>(strip.features, j, input_numbers(rows, j));
        });
        State<V> state = strip.features;
        for (int64 m = 0; m < job.n_input; m++)
            state = convolved<true>(strip, job.operations[m], state);
        strip.take(state);
        add_F0<false>(strip);
    }

    // Take a strip through a layer, whose number is at least 1.
    void pass(Strip<R> &strip, int64 layer_number) const
    {
        if (layer_number == 1)
            layer<true>(strip, 1);
        else
            layer<false>(strip, layer_number);
    }

private:
    // Do the operations of a layer, one after the other. The last layer ends with the sums of its
    // activation, except for results of single pixels.
    template <bool FIRST>
    void layer(Strip<R> &strip, int64 layer_number) const
    {
        const Layer &l = job.layers[layer_number - 1];
        State<V> state = strip.features;
        const Operation *o = job.operations + l.first, *const end = o + l.count;
        // Whether there is U+ before the activation.
        constexpr bool BEFORE = CARRIES_U_PLUS || FIRST;
        for (; o->kind != ACTIVATION; o++) state = after<BEFORE>(strip, l, *o, state);
        state = activated<FIRST>(strip, layer_number, *o, state);
        if (layer_number == job.depth && !has_pixel_results) return;
        while (++o < end)
            state = o->kind == JOINED ? joined<FIRST>(strip, *o, state)
                                      : after<CARRIES_U_PLUS>(strip, l, *o, state);
        if (state.U != strip.features.U) strip.take(state);
    }
    // Return the state after an operation.
    template <bool WITH_U_PLUS>
    INLINE State<V> after(Strip<R> &strip, const Layer &l, const Operation &o, State<V> in) const
    {
        switch (OperationKind(o.kind)) {
        case CONVOLUTION:
            return convolved<WITH_U_PLUS>(strip, o, in);
        case SKIP:
            return merged_with_features(strip, l, o, in);
        case NORM:
            return normalized<WITH_U_PLUS>(strip, o.row + FACTOR_ROW, in);
        case BIAS:
            if (in.U == strip.features.U) in = copied<WITH_U_PLUS>(strip, in);
            bias<WITH_U_PLUS>(strip, o, in);
            return in;
        case ACTIVATION:
        case JOINED:
            break;  // `layer` does both; a kind without a case makes the compiler warn
        }
        return in;
    }

    // The squared distance between the unit vectors of both pixels of the input (SIGN -1), or
    // between one of them and the negative of the other (SIGN 1).
    template <int DEPTH, int SIGN>
    static INLINE V squares_of(const Rows<R> &rows, int64 channels, int64 j)
    {
        return sum_between<DEPTH, V>(0, channels, [&](int64 c, V sum) INLINED {
            const V e =
                SIGN < 0 ? rows.left(c, j) - rows.right(c, j) : rows.left(c, j) + rows.right(c, j);
            return fused(e, e, sum);
        });
    }
    // The same for more than GROUP_TERMS^2 channels. Inlined into the loops over pixels it would
    // make signals of fewer channels 4 % slower.
    template <int SIGN>
    static NOINLINE V squares_of_many(const Rows<R> rows, int64 channels, int64 j)
    {
        return squares_of<3, SIGN>(rows, channels, j);
    }
    template <int SIGN>
    static INLINE V squares(const Rows<R> &rows, int64 channels, int64 j)
    {
        return channels <= GROUP_TERMS * GROUP_TERMS ? squares_of<1, SIGN>(rows, channels, j)
                                                     : squares_of_many<SIGN>(rows, channels, j);
    }
    INLINE PairNumbers<V> input_numbers(const Rows<R> &rows, int64 j) const
    {
        const int64 C = job.channels;
        const V half = number<V>(0.5), most = number<V>(NEARLY_OPPOSITE);
        const V g = rows.product(C, j), w = half * squares<-1>(rows, C, j);
        V v = number<V>(2.0) - w;
        // If there are few channels, the sum of squares is always computed, because it takes less
        // time than a branch that the processor predicts wrongly.
        if (C <= FEW_CHANNELS || any_less(most, w))
            v = pick(most, w, half * squares<1>(rows, C, j), v);
        return {g * w, g * v, V{}};
    }
    // Compute F0, set A to its multiple of F0, and add F0 to the sums. If FROM_INPUT, there is no
    // input filter, and U and U+ of the input are set too.
    template <bool FROM_INPUT>
    void add_F0(Strip<R> &strip) const
    {
        const int64 root = job.n_input ? job.operations[job.n_input - 1].row : job.channels;
        const V initial = number<V>(job.initial);
        const State<V> features = strip.features;
        // The sums of F0 are then products of means (`sum_F0` in results.h).
        const bool sums_are_products = job.all_pairs || job.n_offset_ranges;
        Sum<R> sum;
        strip.runs([&](const Rows<R> &rows, int64 j, int64 to) INLINED {
            V part{};
            int64 count = 0;
            for (; j < to; j++) {
                const PairNumbers<V> input = FROM_INPUT ? input_numbers(rows, j) : features.at(j);
                if (FROM_INPUT) put<true, false>(features, j, input);
                const V F = covariance(rows.product(root, j), input.U, input.U_plus);
                if (NTK) features.A[j] = initial * F;
                if (has_pixel_results) {
                    strip.pixel_kernels.F0[j] = F;
                    strip.pixel_kernels.F[j] = strip.pixel_kernels.A[j] = V{};
                }
                if (!strip.is_counted(j) || sums_are_products) continue;
                if (job.output == SHARES) {
                    strip.sums.template add<LANES>(0, j - strip.layout->counted_begin,
                                                   strip.valid_lanes, F, F);
                    continue;
                }
                part = part + F;
                if (++count < SHORT_SUM) continue;
                sum.add(part, count);
                part = V{};
                count = 0;
            }
            sum.add(part, count);
            if (sum.terms >= LONG_SUM) strip.sums.add_and_clear(0, strip.valid_lanes, sum, sum);
        });
        if (!sums_are_products && job.output == SUMS)
            strip.sums.add_and_clear(0, strip.valid_lanes, sum, sum);
    }

    // The mean over taps of equal weights, plus N.
    template <bool WITH_U_PLUS, class T>
    static INLINE PairNumbers<V> equal_mean(const T &taps, const State<V> &in, int64 j,
                                            const Weight<V> &weight, V N)
    {
        PairNumbers<V> differences{taps.differences(in.U, j), V{}, V{}};
        if (WITH_U_PLUS) differences.U_plus = taps.differences(in.U_plus, j);
        if (NTK) differences.A = taps.differences(in.A, j);
        return mean<WITH_U_PLUS, NTK>(in.at(j), differences, weight.rounded, N);
    }
    // The mean over five taps with the weights 1 2 3 2 1, plus N.
    template <bool WITH_U_PLUS, class T>
    static INLINE PairNumbers<V> triangle_mean(const T &taps, const State<V> &in, int64 j,
                                               const Weight<V> &weight, V N)
    {
        PairNumbers<V> result{weight.times(taps.triangle(in.U, j), N), V{}, V{}};
        if (WITH_U_PLUS) result.U_plus = weight.times(taps.triangle(in.U_plus, j), N);
        if (NTK) result.A = weight.times(taps.triangle(in.A, j));
        return result;
    }
    template <bool WITH_U_PLUS, int TAPS, bool TRIANGLE = false>
    void convolve(const Strip<R> &strip, const Operation &operation, const State<V> in,
                  const State<V> out) const
    {
        const Weight<V> weight(job.convolutions[operation.convolution]);
        strip.runs(operation.convolution, [&](const Rows<R> &rows, int64 from, int64 to) INLINED {
            const Taps<V, TAPS> taps(*strip.layout, operation.convolution, from);
            for (int64 j = from; j < to; j++) {
                const V N = merge_term<TAPS>(rows, operation.row, taps.n_taps, j);
                if (TRIANGLE)
                    put<WITH_U_PLUS, NTK>(out, j,
                                          triangle_mean<WITH_U_PLUS>(taps, in, j, weight, N));
                else
                    put<WITH_U_PLUS, NTK>(out, j, equal_mean<WITH_U_PLUS>(taps, in, j, weight, N));
            }
        });
    }
    template <bool WITH_U_PLUS>
    void convolve(const Strip<R> &strip, const Operation &operation, const State<V> in,
                  const State<V> out) const
    {
        const Convolution &convolution = job.convolutions[operation.convolution];
        if (convolution.n_taps == 3)
            convolve<WITH_U_PLUS, 3>(strip, operation, in, out);
        else if (convolution.is_triangle)
            convolve<WITH_U_PLUS, 5, true>(strip, operation, in, out);
        else if (convolution.n_taps == 5)
            convolve<WITH_U_PLUS, 5>(strip, operation, in, out);
        else
            convolve<WITH_U_PLUS, 0>(strip, operation, in, out);
    }
    // Return the state after a convolution.
    template <bool WITH_U_PLUS>
    State<V> convolved(Strip<R> &strip, const Operation &operation, const State<V> in) const
    {
        const Convolution &convolution = job.convolutions[operation.convolution];
        const State<V> out = strip.spare_states->other_than(in);
        const bool on_lines = !WITH_U_PLUS && convolution.is_triangle &&
                              convolution.dilation == 1 && convolution.axis == 1;
        if (on_lines) five_taps<NTK>(strip, operation, in, out);
        if (!strip.layout->closed) {
            strip.begin += strip.layout->reach(convolution);
            strip.end -= strip.layout->reach(convolution);
        }
        if (!on_lines) convolve<WITH_U_PLUS>(strip, operation, in, out);
        return out;
    }

    // Return the normalized features: `in`, multiplied by the factors in a table row.
    template <bool WITH_U_PLUS>
    NOINLINE State<V> normalized(const Strip<R> &strip, int64 row, const State<V> in) const
    {
        const State<V> out = strip.spare_states->other_than(in);
        strip.runs([&](const Rows<R> &rows, int64 j, int64 to) INLINED {
            for (; j < to; j++) {
                const V factor = rows.product(row, j);
                const PairNumbers<V> f = in.at(j);
                put<WITH_U_PLUS, NTK>(out, j, {factor * f.U, factor * f.U_plus, factor * f.A});
            }
        });
        return out;
    }

    // Add biases to a state: F or K grow by the product of both signals' standard deviations of the
    // biases, and A by a multiple of it.
    template <bool WITH_U_PLUS>
    NOINLINE void bias(const Strip<R> &strip, const Operation &o, const State<V> in) const
    {
        const int64 row = o.row;
        const double multiple = o.after_activation ? job.outer_plus_iota : job.iota;
        const V twice = number<V>(2.0 * o.bias_variance) * strip.biases,
                tangent = number<V>(multiple * o.bias_variance) * strip.biases;
        strip.runs([&](const Rows<R> &rows, int64 j, int64 to) INLINED {
            for (; j < to; j++)
                put<WITH_U_PLUS, NTK>(in, j,
                                      with_bias<WITH_U_PLUS, NTK>(in.at(j), twice, tangent,
                                                                  merge_term<2>(rows, row, 2, j)));
        });
    }
    // A copy of a state, so that biases are not added to the features themselves.
    template <bool WITH_U_PLUS>
    State<V> copied(const Strip<R> &strip, const State<V> in) const
    {
        const State<V> out = strip.spare_states->other_than(in);
        for (int64 j = strip.begin; j < strip.end; j++) put<WITH_U_PLUS, NTK>(out, j, in.at(j));
        return out;
    }

    // Return the branch, computed from pre-activations, and add its K and M to the sums.
    template <bool FIRST>
    INLINE State<V> activated(Strip<R> &strip, int64 layer_number, const Operation &o,
                              const State<V> &in) const
    {
        const State<V> branch = strip.spare_states->other_than(in);
        const bool plain = job.linear_share == 0.0 && job.inner_minus_iota == 0.0;
        constexpr bool BEFORE = CARRIES_U_PLUS || FIRST;
        constexpr auto run = ::activate<CARRIES_U_PLUS, BEFORE, NTK, false, R, V>,
                       run_plain = ::activate<CARRIES_U_PLUS, BEFORE, NTK, true, R, V>;
        (plain ? run_plain : run)(strip, job, layer_number, o, in, branch, strip.begin, strip.end);
        return branch;
    }
    // Return the pre-activations of the next layer, computed from the branch by a joined step.
    template <bool FIRST>
    State<V> joined(Strip<R> &strip, const Operation &operation, const State<V> &branch) const
    {
        const State<V> out = FIRST ? strip.spare_states->other_than(branch) : strip.features;
        join<NTK, FIRST>(strip, operation, branch, out);
        return out;
    }
    // Add the branch to the features, with their weights, in place, and return the features.
    State<V> merged_with_features(Strip<R> &strip, const Layer &l, const Operation &o,
                                  const State<V> &branch) const
    {
        switch (Form(o.form)) {
        case BRANCH_ALONE:
            merge<BRANCH_ALONE>(strip, l, o, branch);
            break;
        case SUM:
            merge<SUM>(strip, l, o, branch);
            break;
        case MEAN_FROM_FEATURES:
            merge<MEAN_FROM_FEATURES>(strip, l, o, branch);
            break;
        case MEAN_FROM_BRANCH:
            merge<MEAN_FROM_BRANCH>(strip, l, o, branch);
        }
        return strip.features;
    }
    template <Form FORM>
    void merge(Strip<R> &strip, const Layer &l, const Operation &o, const State<V> branch) const
    {
        const V feature_weight = number<V>(o.feature_weight),
                branch_weight = number<V>(o.branch_weight),
                input_weight = number<V>(l.input_weight * job.initial);
        const State<V> features = strip.features;
        const auto pixel_kernels = strip.pixel_kernels;
        const int64 row = o.row, std_row = o.std_row;
        strip.runs([&](const Rows<R> &rows, int64 j, int64 to) INLINED {
            auto pass = [&](V &passing, V branch_number, auto... N) INLINED {
                passing = merged(FORM, feature_weight, branch_weight, passing, branch_number, N...);
            };
            for (; j < to; j++) {
                const V N = merge_term<2>(rows, row, 2, j);
                pass(features.U[j], branch.U[j], N);
                if (CARRIES_U_PLUS) pass(features.U_plus[j], branch.U_plus[j], N);
                if (has_pixel_results)
                    pass(pixel_kernels.F[j], rows.product(std_row, j) - branch.U[j]);
                if (!NTK) continue;
                V &A = has_pixel_results ? pixel_kernels.A[j] : features.A[j];
                pass(A, branch.A[j]);
                if (has_pixel_results) features.A[j] = fused(input_weight, pixel_kernels.F0[j], A);
            }
        });
    }
};
}  // namespace
