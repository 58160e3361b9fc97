// Merges of five taps along lines, with the weights 1 2 3 2 1. They replace two convolutions of
// three taps, and in a joined step (layer/joined.py) the skip connection between them too.
#pragma once
#include "activation.h"

namespace
{
// The factor on a weighted sum over taps, and the rounding error of this factor. Without the second
// one, all layers would have an error in the same direction.
template <class V>
struct Weight {
    V rounded, error;
    INLINE explicit Weight(const Convolution &convolution) : rounded(number<V>(convolution.weight))
    {
        using R = typename RealOf<V>::type;
        error = number<V>(convolution.weight - double(R(convolution.weight)) +
                          convolution.weight_error);
    }
    INLINE V times(V sum) const { return fused(rounded, sum, error * sum); }
    INLINE V times(V sum, V N) const { return fused(rounded, sum, error * sum + N); }
};

// The sum of the last five terms with the weights 1 2 3 2 1, as two sums of three terms, one after
// the other.
template <class V>
struct FiveTaps {
    V second{}, first{};  // the last term but one, and the last term
    V sum2{}, sum1{};     // the last sum of three terms but one, and the last sum
    INLINE V push(V term)
    {
        const V sum = (second + term) + first, five = (sum2 + sum) + sum1;
        second = first;
        first = term;
        sum2 = sum1;
        sum1 = sum;
        return five;
    }
};

// The sum of a vector and its two neighbours.
template <class V>
struct ThreeTaps {
    V before{}, middle{};
    INLINE V push(V next)
    {
        const V sum = (before + next) + middle;
        before = middle;
        middle = next;
        return sum;
    }
};

// A merge of five taps along a line of vectors. If WITH_SKIP, it includes the skip connection from
// `before`, the pre-activations of the layer. In layer 1 (FIRST) these pass the inner filter of
// layer 2 too, because they have no convolution.
template <class R, bool NTK, bool FIRST, bool WITH_SKIP>
struct FiveTapsMerge {
    using V = typename Lanes<R>::V;
    const Strip<R> &strip;
    const int64 row;        // the first table row of the merge
    const Weight<V> ninth;  // the weight 1/9 of the sum of five taps
    const V branch_weight, feature_weight;
    const State<V> in, before, out;  // `out` may be `before`, except if FIRST
    int64 begin = 0, end = 0;        // the vectors of the line
    FiveTaps<V> U, M;
    ThreeTaps<V> U_around, A_around;

    INLINE FiveTapsMerge(const Strip<R> &strip, const Operation &operation, const State<V> &in,
                         const State<V> &before, const State<V> &out)
        : strip(strip), row(operation.row),
          ninth(strip.layout->job.convolutions[operation.convolution]),
          branch_weight(number<V>(operation.branch_weight)),
          feature_weight(number<V>(operation.feature_weight)), in(in), before(before), out(out)
    {
    }
    // Compute the vectors of the line `from` ... `to` - 1: all of them if the line is a ring, and
    // all but the first two and the last two if the strip is open.
    INLINE void compute_line(int64 from, int64 to)
    {
        begin = from;
        end = to;
        const bool closed = strip.layout->closed;
        int64 j = closed ? from : from + 2;
        const int64 stop = closed ? to : to - 2;
        for (int64 k = j - 2; k < j + 2; k++) {
            U.push(in.U[wrapped(k)]);
            if (NTK) M.push(in.A[wrapped(k)]);
        }
        if (FIRST) {
            U_around = {before.U[wrapped(j - 1)], before.U[j]};
            if (NTK) A_around = {before.A[wrapped(j - 1)], before.A[j]};
        }
        const int *const run_ends = strip.layout->run_ends[strip.layout->job.n_convolutions];
        for (int64 run; j < stop; j = run) {
            run = run_ends[j] < stop ? run_ends[j] : stop;
            for (int64 shift = FIRST ? 1 : 2; shift <= 2; shift++) {
                const int64 taps = j + end - wrapped(j + shift);
                if (taps < run) run = taps;
            }
            pass(strip.rows_from(j), j, run, wrapped(j + 2) - j, wrapped(j + 1) - j);
        }
    }

private:
    // The vector j of the line, where vectors beyond its ends continue periodically.
    INLINE int64 wrapped(int64 j) const
    {
        while (j < begin) j += end - begin;
        while (j >= end) j -= end - begin;
        return j;
    }
    // Compute the vectors j ... `to` - 1, where the last tap is `last` vectors and the next
    // neighbour `next` vectors after each vector.
    INLINE void pass(const Rows<R> &rows, int64 j, int64 to, int64 last, int64 next)
    {
        for (; j < to; j++) {
            PairNumbers<V> sum{U.push(in.U[j + last]), V{}, V{}};
            if (NTK) sum.A = M.push(in.A[j + last]);
            const V N = merge_term<5>(rows, row, 5, j);
            if (!WITH_SKIP) {
                out.U[j] = ninth.times(sum.U, N);
                if (NTK) out.A[j] = ninth.times(sum.A);
                continue;
            }
            PairNumbers<V> passing{FIRST ? U_around.push(before.U[j + next]) : before.U[j], V{},
                                   V{}};
            if (NTK) passing.A = FIRST ? A_around.push(before.A[j + next]) : before.A[j];
            put<false, NTK>(out, j, joined<NTK>(feature_weight, branch_weight, passing, sum, N));
        }
    }
};

// A convolution of five taps along lines, without dilation.
template <bool NTK, class R, class V>
NOINLINE void five_taps(Strip<R> &strip, const Operation &operation, const State<V> in,
                        const State<V> out)
{
    FiveTapsMerge<R, NTK, false, false> taps(strip, operation, in, in, out);
    const int64 line_pixels =
        strip.layout->job.height ? strip.layout->job.line_pixels : strip.end - strip.begin;
    for (int64 j = strip.begin; j < strip.end; j += line_pixels)
        taps.compute_line(j, j + line_pixels);
}

// A joined step, from the branch to the pre-activations of the next layer. Networks with a joined
// step have no biases, no leaky ReLU and no U+.
template <bool NTK, bool FIRST, class R, class V>
NOINLINE void join(Strip<R> &strip, const Operation &operation, const State<V> branch,
                   const State<V> out)
{
    FiveTapsMerge<R, NTK, FIRST, true>(strip, operation, branch, strip.features, out)
        .compute_line(strip.begin, strip.end);
    if (strip.layout->closed) return;
    strip.begin += 2;
    strip.end -= 2;
}
}  // namespace
