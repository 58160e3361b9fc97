// A strip: some pixel pairs that go through the layers together, with their tables, state and sums.
#pragma once
#include "../compiled/formulas.h"
#include "layout.h"

#define INLINED __attribute__((always_inline))
#define INLINE inline INLINED
// For loops that need all registers. Inlined into a larger function they were 7 % slower.
#define NOINLINE __attribute__((noinline))

namespace
{
// After SHORT_SUM terms in the working precision, a sum is added to one in float64.
constexpr int64 SHORT_SUM = 32;
// Sums of more than LONG_SUM terms carry their rounding errors.
constexpr int64 LONG_SUM = 1024;
// The largest number of strips that go through a layer one after the other, so that the tables of
// their right signals in this layer stay in the cache.
constexpr int64 MOST_STRIPS = 8;
// The largest number of vectors of these strips together. More would need more than 64 MB of
// memory.
constexpr int64 MOST_VECTORS = 65536;

// ---------------------------------------------------------------------- tables

template <class R>
struct Table {
    const R *rows;
    int64 stride;  // how many numbers a row has
};

// The tables of the left and the right signal at consecutive vectors of a strip. In the functions,
// `row` is a table row and j a vector of the strip.
template <class R>
struct Rows {
    using V = typename Lanes<R>::V;
    const R *x, *z;
    int64 x_stride, z_stride, stride;
    INLINE R left(int64 row, int64 j) const { return x[row * x_stride + j]; }
    INLINE V right(int64 row, int64 j) const { return loaded(z + row * z_stride + j * stride); }
    INLINE V product(int64 row, int64 j) const { return left(row, j) * right(row, j); }
};

// N, which a merge adds to deficits: the squared distance of the coordinates, times the product of
// the factors of both signals. PARTS is the number of parts, or 0 if the compiler does not know it.
template <int PARTS, class R>
INLINE typename Lanes<R>::V merge_term(const Rows<R> &rows, int64 row, int64 parts, int64 j)
{
    using V = typename Lanes<R>::V;
    auto add = [&](int64 t, V sum) INLINED {
        const int64 coordinates = row + COORDINATE_ROWS + t;
        const V e = rows.left(coordinates, j) - rows.right(coordinates, j);
        return fused(e, e, sum);
    };
    V sum{};
    if (PARTS) {
        UNROLL
        for (int64 t = 0; t < PARTS - 1; t++) sum = add(t, sum);
    } else {
        sum = sum_between<1, V>(0, parts - 1, add);
    }
    return rows.product(row + FACTOR_ROW, j) * sum;
}

// ---------------------------------------------------------------------- state

// U, U+ and A at each vector of a strip.
template <class V>
struct State {
    V *U, *U_plus, *A;
    INLINE PairNumbers<V> at(int64 j) const { return {U[j], U_plus[j], A[j]}; }
};
template <bool WITH_U_PLUS, bool NTK, class V>
INLINE void put(const State<V> &state, int64 j, const PairNumbers<V> &numbers)
{
    state.U[j] = numbers.U;
    if (WITH_U_PLUS) state.U_plus[j] = numbers.U_plus;
    if (NTK) state.A[j] = numbers.A;
}

// Two states that all strips share as working memory. An operation that reads the state `in` writes
// to `other_than(in)`.
template <class V>
struct SpareStates {
    State<V> one, other;
    State<V> &other_than(const State<V> &in) { return in.U == one.U ? other : one; }
};

// A sum of vectors in float64. Its summands are sums of at most SHORT_SUM terms in the working
// precision.
template <class R>
struct Sum {
    double total[Lanes<R>::LANES];
    int64 terms;
    // Initializers of members would be slower: GCC clears them in pieces, and the next load waits.
    INLINE Sum() : total(), terms(0) {}
    INLINE void add(typename Lanes<R>::V part, int64 count)
    {
        for (int q = 0; q < Lanes<R>::LANES; q++) total[q] += double(part[q]);
        terms += count;
    }
};

// The sums over the vectors of a strip, for heads that need them: of F0 (layer 0), and of K and M
// of each layer.
struct Sums {
    double *numbers;           // (2 kinds, depth + 1, left_pixels, lanes)
    double *rounding_errors;   // of the same shape: the rounding errors of sums of many terms
    double *over_offsets[2];   // for pooled heads: sums over offsets, and over opposite offsets
    int64 left_pixels;         // the left pixels that have sums of their own: all for shares, or 1
    int64 lanes;               // 1 if all lanes belong to one pair of signals
    int64 size;                // how many numbers each kind has
    bool has_many;             // whether sums have more than LONG_SUM terms
    double times[MOST_LANES];  // how often each lane counts, if all belong to one pair of signals

    double *at(int64 kind, int64 layer, int64 pixel) const
    {
        return numbers + kind * size + (layer * left_pixels + pixel) * lanes;
    }
    void clear()
    {
        for (int64 k = 0; k < 2 * size; k++) numbers[k] = rounding_errors[k] = 0.0;
    }
    // Add the first `valid_lanes` lanes of K and M, which are vectors or arrays, to the sums of a
    // layer.
    template <int LANES, class T>
    INLINE void add(int64 layer, int64 pixel, int64 valid_lanes, const T &K, const T &M)
    {
        constexpr int AT_ONCE =
            LANES < 4 ? LANES : 4;  // so sums have the same bits for all wider vectors
        double *const k = at(0, layer, pixel), *const m = at(1, layer, pixel);
        if (lanes > 1) {
            for (int q = 0; q < LANES; q++) {
                add_to(k[q], double(K[q]));
                add_to(m[q], double(M[q]));
            }
            return;
        }
        for (int64 q = 0; q < valid_lanes; q += AT_ONCE) {
            double K_sum = 0, M_sum = 0;
            for (int64 p = q; p < q + AT_ONCE && p < valid_lanes; p++) {
                K_sum += times[p] * double(K[p]);
                M_sum += times[p] * double(M[p]);
            }
            add_to(*k, K_sum);
            add_to(*m, M_sum);
        }
    }
    // Add the sums of an offset, times a factor, to the sums over offsets. If `lane_offsets` lanes
    // are offsets, each of them has its own factor, and all are added to lane 0.
    void add_offset(const Sums &offset, int way, const double *factors, int64 lane_offsets)
    {
        double *const total = over_offsets[way];
        const double *const numbers = offset.numbers;
        if (!lane_offsets)
            for (int64 k = 0; k < 2 * size; k++) total[k] += factors[0] * numbers[k];
        for (int64 q = 0; q < lane_offsets; q++)
            for (int64 k = 0; k < 2 * size; k += lanes) total[k] += factors[q] * numbers[k + q];
    }
    void clear_offsets()
    {
        for (double *total : over_offsets)
            for (int64 k = 0; k < 2 * size; k++) total[k] = 0.0;
    }
    // Replace the sums by those over offsets and over opposite offsets together.
    void replace_by_sum_over_offsets()
    {
        for (int64 k = 0; k < 2 * size; k++) numbers[k] = over_offsets[0][k] + over_offsets[1][k];
    }
    // Add K and M to the sums of a layer, and set them to 0.
    template <class R>
    INLINE void add_and_clear(int64 layer, int64 valid_lanes, Sum<R> &K, Sum<R> &M)
    {
        add<Lanes<R>::LANES>(layer, 0, valid_lanes, K.total, M.total);
        K = M = Sum<R>();
    }

private:
    // Add a term to a total. If there are many terms, the rounding error corrects the next term
    // (Kahan summation), because the errors of equal terms have the same sign and would accumulate.
    INLINE void add_to(double &total, double term)
    {
        if (!has_many) {
            total += term;
            return;
        }
        double &error = rounding_errors[&total - numbers];
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
    SpareStates<V> *spare_states;
    Table<R> x, z;      // the tables of the left and of the right signal
    V biases;           // the product of the standard deviations of both signals' biases
    int64 valid_lanes;  // how many lanes count
    int64 begin, end;   // the vectors begin ... end - 1 have a valid state
    // The state of the features, or of the pre-activations if layers lead from these to the next
    // ones.
    State<V> features;
    // For results of single pixels and skip connections: F0, and F and A without multiples of F0.
    struct {
        V *F0, *F, *A;
    } pixel_kernels;
    Sums sums;

    bool is_counted(int64 j) const { return j >= layout->counted_begin && j < layout->counted_end; }
    INLINE Rows<R> rows_from(int64 j) const
    {
        const int64 stride = layout->stride;
        return {x.rows + layout->left_position[j] - j,
                z.rows + layout->right_position[j] - j * stride, x.stride, z.stride, stride};
    }
    // Call body(rows, j, end) for each run of vectors from `from` to `to` that a convolution can
    // compute by consecutive positions and taps (`Layout::run_ends`). A run of more than LONG_SUM
    // vectors is divided into several calls, between which long sums are added to `Sums`
    // (`add_and_clear`).
    template <class Body>
    INLINE void runs(int64 convolution, int64 from, int64 to, Body body) const
    {
        for (int64 j = from, stop; j < to; j = stop) {
            stop = layout->run_ends[convolution][j] < to ? layout->run_ends[convolution][j] : to;
            if (stop - j > LONG_SUM) stop = j + LONG_SUM;
            body(rows_from(j), j, stop);
        }
    }
    template <class Body>
    INLINE void runs(int64 convolution, Body body) const
    {
        runs(convolution, begin, end, body);
    }
    // Call body(rows, j, end) for each run of vectors with consecutive positions.
    template <class Body>
    INLINE void runs(Body body) const
    {
        runs(layout->job.n_convolutions, body);
    }
    // Make `in` the features. Their former arrays become the spare state that `in` was.
    void take(const State<V> &in)
    {
        State<V> &free = in.U == spare_states->one.U ? spare_states->one : spare_states->other;
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
    int64 count;  // how many of them have memory

    // Allocate memory for the strips of a layout. Return whether there is enough.
    bool lay_out(const Job &job, const Layout &layout)
    {
        const int64 left_pixels = job.output == SHARES ? layout.left_length : 1,
                    lanes = job.all_pairs ? 1 : Lanes<R>::LANES,
                    size = (job.depth + 1) * left_pixels * lanes;
        count = job.all_pairs         ? 1
                : job.n_offset_ranges ? MOST_STRIPS
                                      : job.end_left - job.first_left;
        if (count > MOST_STRIPS) count = MOST_STRIPS;
        while (count > 1 && count * layout.n > MOST_VECTORS) count--;
        // Without a spacing, arrays whose size is a power of 2 would evict each other from the
        // cache. `_strip_bytes` of engine.py counts these bytes.
        const int64 spacing = layout.n + 5;
        V *free_vectors =
            (V *)memory.take(int64(sizeof(V)) * (6 + 6 * count) * spacing +
                             int64(sizeof(double)) * count * (job.n_offset_ranges ? 8 : 4) * size);
        if (!free_vectors) return false;
        auto array = [&] {
            free_vectors += spacing;
            return free_vectors - spacing;
        };
        spare_states = {{array(), array(), array()}, {array(), array(), array()}};
        for (int64 s = 0; s < count; s++) {
            strip[s].layout = &layout;
            strip[s].spare_states = &spare_states;
            strip[s].features = {array(), array(), array()};
            strip[s].pixel_kernels = {array(), array(), array()};
        }
        double *numbers = (double *)free_vectors;
        auto kinds = [&] {
            numbers += 2 * size;
            return numbers - 2 * size;
        };
        for (int64 s = 0; s < count; s++) {
            strip[s].sums = {
                kinds(), kinds(), {}, left_pixels, lanes, size, layout.right_length > LONG_SUM, {}};
            if (!job.n_offset_ranges) continue;
            for (double *&total : strip[s].sums.over_offsets) total = kinds();
        }
        return true;
    }

private:
    SpareStates<V> spare_states;
    Memory memory;
};
}  // namespace
