// The activation of a strip, from pre-activations to the branch.
#pragma once
#include "strip.h"

namespace
{
// The number of vectors by which correlations are computed in advance and stored, a power of 2.
// Square roots and quotients take long. Computed in advance, they do not delay the rest of a
// vector's computation.
constexpr int64 VECTORS_AHEAD = 8;

// PLAIN: the activation is ReLU without a leak, and no covariance is added to A (inner = iota).
template <class R, bool CARRIES_U_PLUS, bool WITH_U_PLUS, bool NTK, bool PLAIN>
struct ActivatedLayer {
    using V = typename Lanes<R>::V;
    Strip<R> &strip;
    const int64 layer_number;
    const Operation &o;
    const State<V> in, branch;
    const Activation<V> relu;
    Sum<R> K_sum, M_sum;

    INLINE ActivatedLayer(Strip<R> &strip, const Job &job, int64 layer_number, const Operation &o,
                          const State<V> &in, const State<V> &branch)
        : strip(strip), layer_number(layer_number), o(o), in(in), branch(branch),
          relu{number<V>(job.linear_share), number<V>(job.inner_minus_iota),
               number<V>(job.outer_plus_iota), job.linear_share != 0.0, job.inner_minus_iota != 0.0}
    {
    }
    // Compute the vectors `from` ... `to` - 1, and add their K and M to the sums of the layer.
    INLINE void run(int64 from, int64 to)
    {
        const bool shares = strip.layout->job.output == SHARES;
        strip.runs(strip.layout->job.n_convolutions, from, to,
                   [&](const Rows<R> &rows, int64 j, int64 end) INLINED {
                       const int64 cuts[] = {strip.layout->counted_begin,
                                             strip.layout->counted_end};
                       for (int64 stop; j < end; j = stop) {
                           stop = end;
                           for (const int64 cut : cuts)
                               if (j < cut && cut < stop) stop = cut;
                           pass(rows, j, stop, strip.is_counted(j) && !shares);
                           if (shares && strip.is_counted(j)) add_each(rows, j, stop);
                       }
                       if (K_sum.terms >= LONG_SUM) add_and_clear();
                   });
        if (!shares) add_and_clear();
    }

private:
    INLINE void add_and_clear()
    {
        strip.sums.add_and_clear(layer_number, strip.valid_lanes, K_sum, M_sum);
    }
    // Compute vectors with consecutive positions, which are all part of the sums or all not.
    INLINE void pass(const Rows<R> &rows, int64 j, int64 stop, bool counts)
    {
        const V two = number<V>(2.0);
        // The compiler knows PLAIN, but not the two flags of the job.
        const Activation<V> constants{relu.lambda, relu.inner_minus_iota, relu.outer_plus_iota,
                                      !PLAIN && relu.leaks, !PLAIN && relu.adds_covariance};
        V w[VECTORS_AHEAD], v[WITH_U_PLUS ? VECTORS_AHEAD : 1], s[VECTORS_AHEAD];
        auto correlate = [&](int64 k) INLINED {
            const Correlation<V> correlation = ::correlation<WITH_U_PLUS>(
                in.U[k], WITH_U_PLUS ? in.U_plus[k] : V{}, rows.product(o.row, k));
            w[k & (VECTORS_AHEAD - 1)] = correlation.w;
            if (WITH_U_PLUS) v[k & (VECTORS_AHEAD - 1)] = correlation.v;
            s[k & (VECTORS_AHEAD - 1)] = correlation.s;
        };
        V K, M;
        auto finish = [&](int64 k) INLINED {
            const int64 q = k & (VECTORS_AHEAD - 1);
            const Correlation<V> correlation{w[q], WITH_U_PLUS ? v[q] : two - w[q], s[q]};
            const Activated<V> result = activated<CARRIES_U_PLUS, NTK>(
                constants, correlation, rows.product(o.std_row, k), NTK ? in.A[k] : V{});
            put<CARRIES_U_PLUS, NTK>(branch, k, result.branch);
            K = K + result.K;
            M = M + result.branch.A;
        };
        for (int64 k = j; k < j + VECTORS_AHEAD && k < stop; k++) correlate(k);
        while (j < stop) {
            const int64 count = stop - j < SHORT_SUM ? stop - j : SHORT_SUM, end = j + count,
                        both = end < stop - VECTORS_AHEAD ? end : stop - VECTORS_AHEAD;
            K = M = V{};
            for (; j < both; j++) {
                finish(j);
                correlate(j + VECTORS_AHEAD);
            }
            for (; j < end; j++) finish(j);
            if (!counts) continue;
            K_sum.add(K, count);
            M_sum.add(M, count);
        }
    }
    // Add K and M of each vector to the sums of its left pixel, for shares.
    INLINE void add_each(const Rows<R> &rows, int64 j, int64 stop)
    {
        for (; j < stop; j++)
            strip.sums.template add<Lanes<R>::LANES>(
                layer_number, j - strip.layout->counted_begin, strip.valid_lanes,
                rows.product(o.std_row, j) - branch.U[j], NTK ? branch.A[j] : V{});
    }
};

template <bool CARRIES_U_PLUS, bool WITH_U_PLUS, bool NTK, bool PLAIN, class R, class V>
NOINLINE void activate(Strip<R> &strip, const Job &job, int64 layer_number, const Operation &o,
                       const State<V> in, const State<V> branch, int64 from, int64 to)
{
    ActivatedLayer<R, CARRIES_U_PLUS, WITH_U_PLUS, NTK, PLAIN>(strip, job, layer_number, o, in,
                                                               branch)
        .run(from, to);
}
}  // namespace
