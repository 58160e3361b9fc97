// A layer from pre-activations to pre-activations, row after row. Behind the activation, two
// filters of 3 and the skip connection are one merge of five taps, of weights 1 2 3 2 1.
#pragma once
#include "strip.h"

namespace
{
// The weight of a tap of weight 1, and what the rounded weight lacks. Without the rest all layers
// would err in the same direction.
template <class V>
struct Weight {
    V weight, rest;
    INLINE explicit Weight(const Window &w) : weight(number<V>(w.weight))
    {
        using R = typename RealOf<V>::type;
        rest = number<V>(w.weight - double(R(w.weight)) + w.rest);
    }
    INLINE V times(V sum) const { return fused(weight, sum, rest * sum); }
    INLINE V times(V sum, V N) const { return fused(weight, sum, rest * sum + N); }
};

// The sum of the last five terms, of weights 1 2 3 2 1: two windows of three.
template <class V>
struct FiveTaps {
    V second{}, first{};  // the last two terms but one, and the last one
    V sum2{}, sum1{};     // sums of three terms, likewise
    INLINE V push(V term)
    {
        const V sum = (second + term) + first, whole = (sum2 + sum) + sum1;
        second = first;
        first = term;
        sum2 = sum1;
        sum1 = sum;
        return whole;
    }
};

// The sum of a row and its neighbours on a ring, whose rows are overwritten one after the other.
template <class V>
struct Neighbours {
    V before, first;
    INLINE V sum(const V *values, int64 j, int64 n)
    {
        const V here = values[j], whole = (before + (j + 1 < n ? values[j + 1] : first)) + here;
        before = here;
        return whole;
    }
};

// There is no bias, leak or U+ but in layer 1 (FIRST), whose pre-activations, the input, pass the
// filter of layer 2 too. Without WITH_SKIP these are only the first five taps of longer filters,
// from the features to another state.
template <class R, bool NTK, bool FIRST, bool WITH_SKIP>
struct JoinedLayer {
    using V = typename Lanes<R>::V;
    Strip<R> &strip;
    const Layout &layout;
    const Job &job;
    const int64 number_of, row, n;
    const Layer &l;
    const State<V> in, out;
    const Weight<V> ninth;
    const V share, keep;
    const Activation<V> relu;
    Sum<R> K_sum, M_sum;
    FiveTaps<V> of_U, of_M;
    Neighbours<V> U_around, A_around;
    V U[4], M[4];  // of the rows that windows begin with

    JoinedLayer(Strip<R> &strip, int64 number_of, const Operation &merge, const State<V> &out)
        : strip(strip), layout(*strip.layout), job(layout.job), number_of(number_of),
          row(merge.row), n(layout.n), l(job.layers[number_of - 1]), in(strip.features), out(out),
          ninth(job.windows[merge.window]), share(number<V>(l.share)), keep(number<V>(l.keep)),
          relu{V{}, V{}, number<V>(job.outer_plus_readout), false, false}
    {
        // The row before the first one that is written.
        const int64 before = layout.closed ? n - 1 : strip.begin + 1;
        U_around = {in.U[before], in.U[0]};
        if (NTK) A_around = {in.A[before], in.A[0]};
    }

    INLINE void run()
    {
        if (layout.closed && n < 4) {
            short_ring();
        } else {
            prologue();
            body();
            epilogue();
        }
        if (!layout.closed) {
            strip.begin += 2;
            strip.end -= 2;
        }
        strip.sums.settle(number_of, strip.valid, K_sum, M_sum);
    }

private:
    INLINE Angle<V> look(const Rows<R> &at, int64 j) const
    {
        return angle<FIRST>(in.U[j], in.O[j], at.product(l.inverse, j));
    }
    INLINE void activate(const Rows<R> &at, int64 j, const Angle<V> &angle, bool counts, V &u, V &m)
    {
        const Activated<V> made =
            activated<false, NTK>(relu, angle, at.product(l.root, j), in.A[j]);
        u = made.branch.U;
        m = made.branch.A;
        if (!counts) return;
        K_sum += made.K;
        M_sum += m;
    }
    // Write row j, when the windows have the terms up to row j + 2.
    INLINE void write(const Rows<R> &at, int64 j, V u, V m)
    {
        const Numbers<V> sum{of_U.push(u), V{}, of_M.push(m)};
        const V N = distance<5>(at, row, 5, j);
        if (!WITH_SKIP) {
            out.U[j] = ninth.times(sum.U, N);
            if (NTK) out.A[j] = ninth.times(sum.A);
            return;
        }
        Numbers<V> kept{in.U[j], V{}, V{}};
        if (FIRST) kept.U = U_around.sum(in.U, j, n);
        if (NTK) kept.A = FIRST ? A_around.sum(in.A, j, n) : in.A[j];
        put<false, NTK>(in, j, joined<NTK>(keep, share, kept, sum, N));
    }

    INLINE void start(int64 k, int64 j)
    {
        const Rows<R> at = strip.rows_from(j);
        activate(at, j, look(at, j), strip.is_own(j), U[k], M[k]);
    }
    INLINE void short_ring()
    {
        for (int64 j = 0; j < n; j++) start(j, j);
        for (int64 j = 0; j < n; j++) {
            for (int64 k = j - 2; k < j + 2; k++) {
                of_U.push(U[modulo(k, n)]);
                of_M.push(M[modulo(k, n)]);
            }
            write(strip.rows_from(j), j, U[(j + 2) % n], M[(j + 2) % n]);
        }
    }
    // Windows begin with four rows: of a ring, the last two and the first two, which it ends with
    // too.
    INLINE void prologue()
    {
        for (int64 k = 0; k < 4; k++) start(k, layout.closed ? modulo(k - 2, n) : strip.begin + k);
        for (int64 k = 0; k < 4; k++) {
            of_U.push(U[k]);
            of_M.push(M[k]);
        }
    }
    // Take rows whose places follow one another, and two rows behind them.
    INLINE void pass(const Rows<R> &at, const Rows<R> &behind, bool counts, int64 j, int64 to)
    {
        for (Angle<V> next = look(at, j); j < to; j++) {
            V u, m;
            const Angle<V> now = next;
            next = look(at, j + 1);
            activate(at, j, now, counts, u, m);
            write(behind, j - 2, u, m);
        }
    }
    INLINE void body()
    {
        const int *run_of = layout.run_of[job.n_windows];
        const int64 stop = layout.closed ? n - 2 : strip.end;
        for (int64 j = layout.closed ? 2 : strip.begin + 4, to; j < stop; j = to) {
            const bool counts = strip.is_own(j);
            to = stop;
            const int64 cuts[] = {run_of[j], run_of[j - 2] + 2, counts ? layout.last : layout.first,
                                  j + LONG};
            for (const int64 cut : cuts)
                if (j < cut && cut < to) to = cut;
            const Rows<R> at = strip.rows_from(j), behind = strip.rows_from(j - 2);
            if (counts && at.x == behind.x && at.z == behind.z)
                pass(at, at, true, j, to);
            else
                pass(at, behind, counts, j, to);
            if (K_sum.terms >= LONG) strip.sums.settle(number_of, strip.valid, K_sum, M_sum);
        }
    }
    INLINE void epilogue()
    {
        if (!layout.closed) return;
        for (int64 k = 0; k < 4; k++) write(strip.rows_from(n - 4 + k), n - 4 + k, U[k], M[k]);
    }
};

template <class R, bool NTK, bool FIRST, bool WITH_SKIP>
ALONE void join(Strip<R> &strip, int64 number_of, const Operation &merge,
                const State<typename Lanes<R>::V> &out)
{
    JoinedLayer<R, NTK, FIRST, WITH_SKIP>(strip, number_of, merge, out).run();
}
}  // namespace
