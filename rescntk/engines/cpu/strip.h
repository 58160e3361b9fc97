// A strip: the tables, the state and the sums of pixel pairs on their way through the layers.
#pragma once
#include "../compiled/formulas.h"
#include "layout.h"

#define INLINED __attribute__((always_inline))
#define INLINE inline INLINED
// Loops that take registers of their own: within a larger function they have been 7 % slower.
#define ALONE __attribute__((noinline))

namespace
{
constexpr int64 FLUSH = 32;   // terms of a sum in the working precision, before float64 has them
constexpr int64 LONG = 1024;  // terms of a sum; sums of more terms carry their rounding errors
constexpr int64 MOST_STRIPS = 8;    // left signals that go through a layer with a block of right
                                    // ones, whose tables of the layer then stay in the cache
constexpr int64 MOST_ROWS = 65536;  // of strips that go through the layers together: more take
                                    // 64 MB of memory

// ---------------------------------------------------------------------- tables

template <class R>
struct Table {
    const R *rows;
    int64 stride;
};

// The tables of both sides at rows of a strip that follow one another.
template <class R>
struct Rows {
    using V = typename Lanes<R>::V;
    const R *x, *z;
    int64 x_stride, z_stride, stride;
    INLINE R left(int64 row, int64 j) const { return x[row * x_stride + j]; }
    INLINE V right(int64 row, int64 j) const { return loaded(z + row * z_stride + j * stride); }
    INLINE V product(int64 row, int64 j) const { return left(row, j) * right(row, j); }
};

// N, which a merge of some parts adds to deficits: the squared distance of coordinates, times a
// factor of both sides. PARTS is 0 or the number of parts.
template <int PARTS, class R>
INLINE typename Lanes<R>::V merge_term(const Rows<R> &at, int64 row, int64 parts, int64 j)
{
    using V = typename Lanes<R>::V;
    auto add = [&](int64 t, V sum) INLINED {
        const int64 coordinates = row + COORDINATE_ROWS + t;
        const V e = at.left(coordinates, j) - at.right(coordinates, j);
        return fused(e, e, sum);
    };
    V sum{};
    if (PARTS) UNROLL
    for (int64 t = 0; t < PARTS - 1; t++) sum = add(t, sum);
    else sum = sum_between<1, V>(0, parts - 1, add);
    return at.product(row + FACTOR_ROW, j) * sum;
}

// ---------------------------------------------------------------------- state

// U, U+ and A at each row.
template <class V>
struct State {
    V *U, *O, *A;
    INLINE Numbers<V> at(int64 j) const { return {U[j], O[j], A[j]}; }
};
template <bool OPPOSITE, bool NTK, class V>
INLINE void put(const State<V> &state, int64 j, const Numbers<V> &numbers)
{
    state.U[j] = numbers.U;
    if (OPPOSITE) state.O[j] = numbers.O;
    if (NTK) state.A[j] = numbers.A;
}

// Two states that strips have in common. One may hold what the next operation reads.
template <class V>
struct Spare {
    State<V> one, other;
    State<V> &beside(const State<V> &in) { return in.U == one.U ? other : one; }
};

// A sum of vectors in float64, to which sums of at most FLUSH terms in the working precision are
// added.
template <class R>
struct Sum {
    double total[Lanes<R>::LANES];
    int64 terms;
    // With initializers of members GCC clears them in pieces, which the next load waits for.
    INLINE Sum() : total(), terms(0) {}
    INLINE void add(typename Lanes<R>::V part, int64 count)
    {
        for (int q = 0; q < Lanes<R>::LANES; q++) total[q] += double(part[q]);
        terms += count;
    }
};

// Sums over the rows of a strip, for heads that need them: of F0, then of each layer's K and M.
struct Sums {
    double *numbers;           // (2 kinds, depth + 1, points, lanes)
    double *owed;              // of the same shape: rounding errors of sums of many terms
    double *over[2];           // of pooled heads: sums over offsets, and over their opposites
    int64 points, lanes;       // 1 lane where all lanes are one pair of signals
    int64 size;                // numbers of a kind
    bool has_many;             // sums have more than LONG terms
    double times[MOST_LANES];  // how often each lane counts, where all are one pair of signals

    double *at(int64 kind, int64 layer, int64 point) const
    {
        return numbers + kind * size + (layer * points + point) * lanes;
    }
    void clear()
    {
        for (int64 k = 0; k < 2 * size; k++) numbers[k] = owed[k] = 0.0;
    }
    // Add `valid` lanes of K and M, which are vectors or arrays.
    template <int LANES, class T>
    INLINE void add(int64 layer, int64 point, int64 valid, const T &K, const T &M)
    {
        constexpr int AT_ONCE =
            LANES < 4 ? LANES : 4;  // with wider vectors sums have the same bits
        double *const k = at(0, layer, point), *const m = at(1, layer, point);
        if (lanes > 1) {
            for (int q = 0; q < LANES; q++) {
                add_to(k[q], double(K[q]));
                add_to(m[q], double(M[q]));
            }
            return;
        }
        for (int64 q = 0; q < valid; q += AT_ONCE) {
            double K_sum = 0, M_sum = 0;
            for (int64 p = q; p < q + AT_ONCE && p < valid; p++) {
                K_sum += times[p] * double(K[p]);
                M_sum += times[p] * double(M[p]);
            }
            add_to(*k, K_sum);
            add_to(*m, M_sum);
        }
    }
    // Add the sums of an offset, times a factor, to the sums over offsets. Where lanes are offsets,
    // each has its own factor, and lane 0 of the sums takes all.
    void collect(const Sums &offset, int way, const double *factors, int64 lane_offsets)
    {
        double *const total = over[way];
        const double *const numbers = offset.numbers;
        if (!lane_offsets)
            for (int64 k = 0; k < 2 * size; k++) total[k] += factors[0] * numbers[k];
        for (int64 q = 0; q < lane_offsets; q++)
            for (int64 k = 0; k < 2 * size; k += lanes) total[k] += factors[q] * numbers[k + q];
    }
    void clear_offsets()
    {
        for (double *total : over)
            for (int64 k = 0; k < 2 * size; k++) total[k] = 0.0;
    }
    // Take the sums over offsets.
    void gather()
    {
        for (int64 k = 0; k < 2 * size; k++) numbers[k] = over[0][k] + over[1][k];
    }
    // Add sums of a layer, and begin new ones.
    template <class R>
    INLINE void settle(int64 layer, int64 valid, Sum<R> &K, Sum<R> &M)
    {
        add<Lanes<R>::LANES>(layer, 0, valid, K.total, M.total);
        K = M = Sum<R>();
    }

private:
    // Add a term to a total. Its rounding error goes into the next term (Kahan): errors of equal
    // terms have one sign, and would add up.
    INLINE void add_to(double &total, double term)
    {
        if (!has_many) {
            total += term;
            return;
        }
        double &error = owed[&total - numbers];
        const double corrected = term - error, rounded = total + corrected;
        error = (rounded - total) - corrected;
        total = rounded;
    }
};

// ---------------------------------------------------------------------- strips

template <class R>
struct Strip {
    using V = typename Lanes<R>::V;
    const Layout *layout;
    Spare<V> *spare;
    Table<R> x, z;      // of both sides
    V biases;           // the product of both sides' biases
    int64 valid;        // the lanes that count
    int64 begin, end;   // the rows that are known
    State<V> features;  // or the pre-activations, where these are carried
    struct {
        V *F0, *F, *A;
    } separate;  // F0, and both kernels without it: for the heads of pixels, with skips
    Sums sums;

    bool is_counted(int64 j) const { return j >= layout->first && j < layout->last; }
    INLINE Rows<R> rows_from(int64 j) const
    {
        const int64 stride = layout->stride;
        return {x.rows + layout->left_place[j] - j, z.rows + layout->right_place[j] - j * stride,
                x.stride, z.stride, stride};
    }
    // Call body(rows, j, end) for each run of a convolution's rows from `from` to `to`. A run of
    // more than LONG rows takes several calls: sums of many terms settle between them.
    template <class Body>
    INLINE void runs(int64 convolution, int64 from, int64 to, Body body) const
    {
        for (int64 j = from, stop; j < to; j = stop) {
            stop = layout->run_of[convolution][j] < to ? layout->run_of[convolution][j] : to;
            if (stop - j > LONG) stop = j + LONG;
            body(rows_from(j), j, stop);
        }
    }
    template <class Body>
    INLINE void runs(int64 convolution, Body body) const
    {
        runs(convolution, begin, end, body);
    }
    // Call body(rows, j, end) for each run of places.
    template <class Body>
    INLINE void runs(Body body) const
    {
        runs(layout->job.n_convolutions, body);
    }
    // Let a state take the place of the features.
    void take(const State<V> &in)
    {
        State<V> &free = in.U == spare->one.U ? spare->one : spare->other;
        const State<V> before = features;
        features = in;
        free = before;
    }
};

// The strips that go through the layers together.
template <class R>
struct Strips {
    using V = typename Lanes<R>::V;
    Strip<R> strip[MOST_STRIPS];
    int64 count;

    // Take memory for strips of a layout; return whether there is enough.
    bool lay_out(const Job &job, const Layout &layout)
    {
        const int64 points = job.output == SHARES ? layout.left_length : 1,
                    lanes = job.all_pairs ? 1 : Lanes<R>::LANES,
                    size = (job.depth + 1) * points * lanes;
        count = job.all_pairs         ? 1
                : job.n_offset_ranges ? MOST_STRIPS
                                      : job.last_left - job.first_left;
        if (count > MOST_STRIPS) count = MOST_STRIPS;
        while (count > 1 && count * layout.n > MOST_ROWS) count--;
        // At powers of 2, arrays would take each other's place in the cache. `_strip_bytes` of
        // engine.py counts the same bytes.
        const int64 spacing = layout.n + 5;
        V *at =
            (V *)memory.take(int64(sizeof(V)) * (6 + 6 * count) * spacing +
                             int64(sizeof(double)) * count * (job.n_offset_ranges ? 8 : 4) * size);
        if (!at) return false;
        auto array = [&] {
            at += spacing;
            return at - spacing;
        };
        spare = {{array(), array(), array()}, {array(), array(), array()}};
        for (int64 s = 0; s < count; s++) {
            strip[s].layout = &layout;
            strip[s].spare = &spare;
            strip[s].features = {array(), array(), array()};
            strip[s].separate = {array(), array(), array()};
        }
        double *numbers = (double *)at;
        auto kinds = [&] {
            numbers += 2 * size;
            return numbers - 2 * size;
        };
        for (int64 s = 0; s < count; s++) {
            strip[s].sums = {kinds(), kinds(), {}, points, lanes, size, layout.right_length > LONG,
                             {}};
            if (!job.n_offset_ranges) continue;
            for (double *&over : strip[s].sums.over) over = kinds();
        }
        return true;
    }

private:
    Spare<V> spare;
    Memory memory;
};
}  // namespace
