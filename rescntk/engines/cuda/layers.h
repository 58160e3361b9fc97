// The layers, applied to a strip of pixel pairs. A thread computes THREAD_PIXELS left pixels, whose
// state stays in registers. Convolutions read neighbouring pixels from shared memory.
//
// The other parameters of templates are
//
//   LANES           the number of right pixels of each left one;
//   ALL, POOLED     which right pixels these are (strips.cu);
//   KEEPS_PIXELS    whether F and A are kept at each pixel, for kernels of single pixels and for
//                   shares; if not, their sums over pixels are;
//
// and CARRIES_U_PLUS, WITH_U_PLUS and NTK, as in ../cpu/layers.h.
#pragma once
#include "strip.h"

template <class R, int LANES, int THREAD_PIXELS, bool ALL, bool POOLED, bool CARRIES_U_PLUS,
          bool NTK, bool KEEPS_PIXELS>
struct Layers {
    using ThisStrip = Strip<R, LANES, THREAD_PIXELS, ALL>;
    using State = typename ThisStrip::State;
    using Pack = typename ThisStrip::Pack;
    using ThreadNumbers = typename ThisStrip::ThreadNumbers;
    static constexpr int PAIRS = ALL ? 1 : LANES;  // the number of signal pairs of a strip

    ThisStrip strip;
    const Job &job;
    const Activation<R> relu;
    R biases[PAIRS];  // the products of the standard deviations of both signals' biases
    // The state of the features, or of the pre-activations if layers lead from these to the next
    // ones.
    State state;
    struct {
        ThreadNumbers F0, F, A;
    } pixel_kernels;  // if KEEPS_PIXELS: F0, and F and A without multiples of F0
    // The sums of F and A without multiples of F0, and of F0, over the pixels of the thread.
    double F[PAIRS], A[PAIRS], F0[PAIRS];

    __device__ Layers(const Launch &launch, char *block_memory)
        : strip(launch, block_memory), job(launch.job),
          relu{R(job.linear_share), R(job.inner_minus_iota), R(job.outer_plus_iota),
               job.linear_share != 0, job.inner_minus_iota != 0}
    {
    }
    FORMULA static int pair_of(int lane) { return ALL ? 0 : lane; }

    // Take the strip through all layers, and call report(layer) after each requested depth. The
    // sum of F0 begins with `F0_sum`.
    template <class Report>
    FORMULA void run(double F0_sum, Report report)
    {
        enter(F0_sum);
        for (int layer_number = 1; layer_number <= job.depth; layer_number++) {
            const Layer &l = job.layers[layer_number - 1];
            pass(l, layer_number == 1, !KEEPS_PIXELS && layer_number == job.depth);
            if (l.depth_index >= 0) report(l);
        }
    }

    // Half the squared distance between the unit vectors of both pixels of the input (sign -1), or
    // between one of them and the negative of the other (sign 1).
    FORMULA Pack half_squares(int p, R sign) const
    {
        Pack sum = sum_of<Pack>(job.channels, [&](int64 c, Pack part) {
            strip.differ(*strip.left(c, p), strip.right(c, p), part.lane, sign);
            return part;
        });
        OVER_LANES (q) sum.lane[q] *= R(0.5);
        return sum;
    }
    // Set U, U+ and A after the input filter, and the sums of F0.
    FORMULA void enter(double F0_sum)
    {
        const int64 C = job.channels, root = job.n_input ? job.operations[job.n_input - 1].row : C;
        OVER_PIXELS (p) {
            const Pack w = half_squares(p, R(-1));
            Pack v = w;
            bool any_opposite = false;
            OVER_LANES (q) any_opposite = any_opposite || w[q] > R(NEARLY_OPPOSITE);
            if (any_opposite) v = half_squares(p, R(1));
            OVER_LANES (q) {
                const R g = strip.product(C, p, q);
                state.U[p][q] = g * w[q];
                state.U_plus[p][q] = g * (w[q] > R(NEARLY_OPPOSITE) ? v[q] : R(2) - w[q]);
                state.A[p][q] = 0;
            }
        }
        for (int m = 0; m < job.n_input; m++) convolve<true>(job.operations[m], state);
        UNROLL
        for (int m = 0; m < PAIRS; m++) {
            F[m] = A[m] = 0;
            F0[m] = F0_sum;
        }
        OVER_PIXELS (p)
            OVER_LANES (q) {
                const R pair_F0 =
                    covariance(strip.product(root, p, q), state.U[p][q], state.U_plus[p][q]);
                state.A[p][q] = R(job.initial) * pair_F0;
                if (KEEPS_PIXELS) {
                    pixel_kernels.F0[p][q] = pair_F0;
                    pixel_kernels.F[p][q] = pixel_kernels.A[p][q] = 0;
                }
                if (!ALL && strip.has_pixel(p)) F0[pair_of(q)] += double(pair_F0);
            }
    }

    // Do the operations of a layer, one after the other. If it `ends`, it is the last layer, which
    // ends with the sums of its activation, except if KEEPS_PIXELS.
    FORMULA void pass(const Layer &l, bool first, bool ends)
    {
        State now = state;
        for (int64 m = l.first; m < l.first + l.count; m++) {
            const Operation &o = job.operations[m];
            if (o.kind == ACTIVATION) {
                if (first)
                    activate<true>(l, o, now);
                else
                    activate<CARRIES_U_PLUS>(l, o, now);
                if (ends) return;
            } else if (o.kind == SKIP) {
                merge_features(l, o, now);
                now = state;
            } else if (o.kind == JOINED) {
                join(o, now, first);
                now = state;
            } else if (first && !o.after_activation)
                change<true>(o, now);
            else
                change<CARRIES_U_PLUS>(o, now);
        }
        state = now;
    }
    // Apply a normalization, a convolution or biases to a state.
    template <bool WITH_U_PLUS>
    FORMULA void change(const Operation &o, State &s) const
    {
        switch (OperationKind(o.kind)) {
        case NORM:
            return normalize<WITH_U_PLUS>(o.row + FACTOR_ROW, s);
        case CONVOLUTION:
            return convolve<WITH_U_PLUS>(o, s);
        case BIAS:
            return bias<WITH_U_PLUS>(o, s);
        case ACTIVATION:
        case SKIP:
        case JOINED:
            break;  // `pass` does these
        }
    }

    // ------------------------------------------------------------------ convolutions and biases

    // Sums over the taps `begin` ... `end` - 1 of a convolution: of the differences of the state
    // from the middle tap, and of the squared differences of coordinates.
    struct Taps {
        R U[LANES], U_plus[LANES], A[LANES], N[LANES];
        FORMULA PairNumbers<R> at(int q) const { return {U[q], U_plus[q], A[q]}; }
    };
    template <bool WITH_U_PLUS>
    FORMULA void taps(const Convolution &convolution, int64 row, const State &s, int p, int begin,
                      int end, Taps &sum) const
    {
        const auto ring = strip.ring_of(strip.pixel(p), convolution.axis);
        const int size = ring.size, step = convolution.dilation < size
                                               ? int(convolution.dilation)
                                               : int(convolution.dilation % size);
        int shift = (begin - int(convolution.n_taps) / 2) * step % size;
        if (shift < 0) shift += size;
        // The coordinate of tap t > 0 is in the row FACTOR_ROW + t. Both pointers move on before
        // each tap; part 0, the middle tap, has no coordinate.
        const R *a = strip.left(row + begin, p), *b = strip.right(row + begin, p);
        OVER_LANES (q) sum.U[q] = sum.U_plus[q] = sum.A[q] = sum.N[q] = 0;
        for (int tap = begin; tap < end; tap++) {
            a += strip.x_stride;
            b += strip.z_stride;
            const int neighbour = ring.wrapped(ring.index + shift);
            shift = shift + step < size ? shift + step : shift + step - size;
            if (tap > 0) strip.differ(*a, b, sum.N);
            const R weight = R(convolution.is_triangle ? tap < 3 ? tap + 1 : 5 - tap : 1);
            strip.add_difference(0, neighbour, weight, s.U[p], sum.U);
            if (NTK) strip.add_difference(1, neighbour, weight, s.A[p], sum.A);
            if (WITH_U_PLUS)
                strip.add_difference(1 + NTK, neighbour, weight, s.U_plus[p], sum.U_plus);
        }
    }
    template <bool WITH_U_PLUS>
    FORMULA void convolve(const Operation &operation, State &s) const
    {
        const Convolution convolution = job.convolutions[operation.convolution];
        const R weight = R(convolution.weight);
        strip.template show<WITH_U_PLUS, NTK>(s);
        OVER_PIXELS (p) {
            if (!strip.has_pixel(p)) continue;
            Taps sum;
            const int n_taps = int(convolution.n_taps);
            taps<WITH_U_PLUS>(convolution, operation.row, s, p, 0,
                              n_taps < GROUP_TERMS ? n_taps : int(GROUP_TERMS), sum);
            for (int begin = GROUP_TERMS; begin < n_taps; begin += GROUP_TERMS) {
                Taps next;
                const int end = begin + GROUP_TERMS < n_taps ? begin + int(GROUP_TERMS) : n_taps;
                taps<WITH_U_PLUS>(convolution, operation.row, s, p, begin, end, next);
                OVER_LANES (q) {
                    sum.U[q] += next.U[q];
                    sum.U_plus[q] += next.U_plus[q];
                    sum.A[q] += next.A[q];
                    sum.N[q] += next.N[q];
                }
            }
            OVER_LANES (q) {
                const R N = strip.product(operation.row + FACTOR_ROW, p, q) * sum.N[q];
                s.template put<WITH_U_PLUS, NTK>(
                    p, q, mean<WITH_U_PLUS, NTK>(s.at(p, q), sum.at(q), weight, N));
            }
        }
    }
    // Multiply a state by the factors in a table row.
    template <bool WITH_U_PLUS>
    FORMULA void normalize(int64 factor_row, State &s) const
    {
        OVER_PIXELS (p)
            OVER_LANES (q) {
                const R factor = strip.product(factor_row, p, q);
                const PairNumbers<R> f = s.at(p, q);
                s.template put<WITH_U_PLUS, NTK>(p, q,
                                                 {factor * f.U, factor * f.U_plus, factor * f.A});
            }
    }
    // Add biases to a state: F or K grow by the product of both signals' standard deviations of the
    // biases, and A by a multiple of it.
    template <bool WITH_U_PLUS>
    FORMULA void bias(const Operation &o, State &s) const
    {
        const double multiple = o.after_activation ? job.outer_plus_iota : job.iota;
        OVER_PIXELS (p) {
            R N[LANES];
            strip.merge_term(o.row, 2, p, N);
            OVER_LANES (q) {
                const R bias = biases[pair_of(q)];
                s.template put<WITH_U_PLUS, NTK>(
                    p, q,
                    with_bias<WITH_U_PLUS, NTK>(s.at(p, q), R(2.0 * o.bias_variance) * bias,
                                                R(multiple * o.bias_variance) * bias, N[q]));
            }
        }
    }

    // ------------------------------------------------------------------ activation and merges

    // Replace the pre-activations by the branch, and add its K and M to the sums.
    template <bool WITH_U_PLUS>
    FORMULA void activate(const Layer &l, const Operation &o, State &s)
    {
        R K_sum[PAIRS], M_sum[PAIRS];
        int count = 0;
        UNROLL
        for (int m = 0; m < PAIRS; m++) K_sum[m] = M_sum[m] = 0;
        OVER_PIXELS (p) {
            if (!strip.has_pixel(p)) continue;
            count++;
            const R a = *strip.left(o.std_row, p), over_a = *strip.left(o.row, p);
            const auto b = strip.lanes_of(strip.right(o.std_row, p)),
                       over_b = strip.lanes_of(strip.right(o.row, p));
            OVER_LANES (q) {
                const Correlation<R> correlation =
                    ::correlation<WITH_U_PLUS>(s.U[p][q], s.U_plus[p][q], over_a * over_b[q]);
                const Activated<R> result =
                    activated<CARRIES_U_PLUS, NTK>(relu, correlation, a * b[q], s.A[p][q]);
                s.template put<CARRIES_U_PLUS, NTK>(p, q, result.branch);
                if (KEEPS_PIXELS || q >= strip.valid_lanes) continue;
                R &K = K_sum[pair_of(q)], &M = M_sum[pair_of(q)];
                K = POOLED ? fused(strip.pool_counts[q], result.K, K) : K + result.K;
                M = POOLED ? fused(strip.pool_counts[q], result.branch.A, M) : M + result.branch.A;
            }
        }
        if (KEEPS_PIXELS) return;
        double times = count;  // how often the product of biases is added
        if (ALL && !POOLED) times *= strip.valid_lanes;
        if (POOLED) {
            double count_sum = 0;
            OVER_LANES (q) count_sum += q < strip.valid_lanes ? double(strip.pool_counts[q]) : 0.0;
            times *= count_sum;
        }
        UNROLL
        for (int m = 0; m < PAIRS; m++) {
            const double product = times * l.bias_variance * double(biases[m]);
            const double K = double(K_sum[m]) + product,
                         M = double(M_sum[m]) + job.outer_plus_iota * product;
            F[m] = fma(l.branch_weight, K, l.feature_weight * F[m]);
            A[m] = fma(l.branch_weight, M, l.feature_weight * A[m]);
        }
    }
    // Add the branch to the features, with the weights of both.
    FORMULA void merge_features(const Layer &l, const Operation &o, const State &branch)
    {
        const Form form = Form(o.form);
        const R feature_weight = R(o.feature_weight), branch_weight = R(o.branch_weight),
                input_weight = R(l.input_weight * job.initial);
        auto add = [&](R &passing, R branch_number, auto... N) {
            passing = merged(form, feature_weight, branch_weight, passing, branch_number, N...);
        };
        OVER_PIXELS (p) {
            R N[LANES];
            strip.merge_term(o.row, 2, p, N);
            OVER_LANES (q) {
                R &U = state.U[p][q], &U_plus = state.U_plus[p][q];
                add(U, branch.U[p][q], N[q]);
                if (CARRIES_U_PLUS) add(U_plus, branch.U_plus[p][q], N[q]);
                if (KEEPS_PIXELS)
                    add(pixel_kernels.F[p][q], strip.product(o.std_row, p, q) - branch.U[p][q]);
                if (!NTK) continue;
                R &passing = KEEPS_PIXELS ? pixel_kernels.A[p][q] : state.A[p][q];
                add(passing, branch.A[p][q]);
                if (KEEPS_PIXELS)
                    state.A[p][q] = fused(input_weight, pixel_kernels.F0[p][q], passing);
            }
        }
    }
    // Compute the pre-activations of the next layer from the branch, by a joined step
    // (layer/joined.py): one merge of five taps with the weights 1 2 3 2 1. In layer 1 (`first`)
    // the pre-activations on the identity path pass the inner filter of layer 2 too.
    FORMULA void join(const Operation &o, const State &branch, bool first)
    {
        const R branch_weight = R(o.branch_weight), feature_weight = R(o.feature_weight);
        State passing = state;
        if (first) {
            strip.template show<false, NTK>(state, true);
            OVER_PIXELS (p) {
                if (!strip.has_pixel(p)) continue;
                UNROLL
                for (int side = -1; side <= 1; side += 2) {
                    strip.add(0, strip.pixel(p) + side, 1, passing.U[p]);
                    if (NTK) strip.add(1, strip.pixel(p) + side, 1, passing.A[p]);
                }
            }
        }
        strip.template show<false, NTK>(branch, true);
        OVER_PIXELS (p) {
            if (!strip.has_pixel(p)) continue;
            R N[LANES], U[LANES], M[LANES];
            OVER_LANES (q) {
                U[q] = 3 * branch.U[p][q];
                M[q] = NTK ? 3 * branch.A[p][q] : 0;
            }
            UNROLL
            for (int tap = -2; tap <= 2; tap++) {
                if (tap == 0) continue;
                const R weight = R(tap < 0 ? 3 + tap : 3 - tap);
                strip.add(0, strip.pixel(p) + tap, weight, U);
                if (NTK) strip.add(1, strip.pixel(p) + tap, weight, M);
            }
            strip.merge_term(o.row, 5, p, N);
            OVER_LANES (q)
                state.template put<false, NTK>(p, q,
                                               joined<NTK>(feature_weight, branch_weight,
                                                           passing.at(p, q), {U[q], 0, M[q]},
                                                           N[q]));
        }
    }
};
