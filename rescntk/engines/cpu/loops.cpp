// The recursion of ReLU networks (engines/windows.py) on strips of pixel pairs.
//
// A strip is the pixel pairs (j, j') of all left pixels j, one after the other, and of W right
// pixels, its lanes. Where all pixel pairs are wanted, lanes are neighbouring pixels j' of one
// right signal; else they are the pixels j' = j of W right signals. Filters move both pixels of a
// pair, so that they stay in a strip. Strips of signals of one length close to rings. Strips of two
// lengths are open: they begin and end further out, by the reach of all filters, and become shorter
// with each filter.
//
// This file is compiled once for each instruction set (build.py). Nothing of C++'s run-time library
// is used.
#include <initializer_list>
#include <stdint.h>
#include <stdlib.h>
#include "../compiled/formulas.h"
#include "../compiled/records.h"

namespace
{
enum { DONE = 0, STOPPED = 1, NO_MEMORY = 2, OTHER_VERSION = 3 };
enum { FLUSH = 32 };   // terms of a sum in the working precision, before they are added in float64
enum { LONG = 1024 };  // terms of a sum, before rounding errors of further ones are added too
enum {
    TOGETHER = 8
};  // left signals that go through a layer with a block of right ones, whose tables
    // of the layer then stay in the cache
enum {
    MOST_ROWS = 1 << 16
};  // of strips that go through the layers together: more take 64 MB of memory

#define INLINE inline __attribute__((always_inline))

int64_t modulo(int64_t a, int64_t n)
{
    return (a % n + n) % n;
}

template <class R>
struct Table {
    const R *rows;
    int64_t stride;
};

template <class R, bool OPPOSITE, bool NTK>
struct Strips {
    typedef typename Lanes<R>::V V;
    typedef typename Lanes<R>::U Unaligned;
    enum { W = Lanes<R>::W };
    enum {
        AT_ONCE = W < 4 ? W : 4
    };  // lanes of one term of a sum: with wider vectors sums have the same bits
    struct State {
        V *U, *O, *A;
    };  // the deficits U and U+ and the tangent kernel A
    struct Sum {  // of vectors: some terms in the working precision, all in float64
        V part;
        double total[W];
        int64_t terms;
        INLINE Sum() : part(V{}), total(), terms(0) {}
        INLINE void operator+=(V term)
        {
            part = part + term;
            if (++terms % FLUSH == 0) flush();
        }
        INLINE void flush()
        {
            for (int k = 0; k < W; k++) total[k] += double(part[k]);
            part = V{};
        }
    };
    // Add a term to a total, and what rounding owes the total to the next term (Kahan): equal terms
    // round alike.
    static INLINE void add_to(double &total, double &owed, double term)
    {
        const double more = term - owed, whole = total + more;
        owed = (whole - total) - more, total = whole;
    }

    const Job &job;
    // The rows of a strip. `left_place` and `right_place`, (n,), are the places of their pixels in
    // the tables; near_of each window, (taps, n), are the rows at its taps. Rows first ... last - 1
    // are the left signal itself. Rows from j to run_of a window[j] have places and taps that
    // follow one another; the last of the runs is of places alone.
    int64_t left_length, right_length, n, first, last, step, together;
    // Steps of windows are multiples of `unit` pixels; own_unit rows lie between two such taps.
    int64_t unit, own_unit;
    bool closed;
    int32_t *left_place, *right_place, **near_of, **run_of;
    void *memory;
    State features, one, other;
    struct Apart {
        V *linear, *F, *A;
    } apart;       // F0, and both kernels without it: for the heads of pixels, with skips
    double *sums;  // (2 kinds, depth + 1, points, lanes): of F0, then of each layer's K and M
    int64_t owed;  // numbers from a sum over all pixel pairs to what rounding owes it
    int64_t points, lanes, valid;  // valid: the lanes that count
    Table<R> x, z;
    V biases;       // the product of both sides' biases
    struct Strip {  // what differs between strips that go through the layers together
        Table<R> x;
        State features;
        Apart apart;
        double *sums;
        V biases;
        int64_t begin, end;  // the rows that are known
    } strips[TOGETHER];

    // A sum of any number of terms, in parts: errors grow with the number of parts. add(t, sum)
    // adds term t.
    template <class Add>
    static INLINE V in_parts(int64_t count, Add add)
    {
        V total{};
        for (int64_t t = 0; t < count;) {
            V part{};
            for (const int64_t stop = t + FLUSH < count ? t + FLUSH : count; t < stop; t++)
                part = add(t, part);
            total = total + part;
        }
        return total;
    }
    // The tables of both sides at rows that follow one another.
    struct Rows {
        const R *x, *z;
        int64_t x_stride, z_stride, step;
        INLINE R left(int64_t row, int64_t j) const { return x[row * x_stride + j]; }
        INLINE V right(int64_t row, int64_t j) const
        {
            return *(const Unaligned *)(z + row * z_stride + j * step);
        }
        INLINE V product(int64_t row, int64_t j) const { return left(row, j) * right(row, j); }
        // What a merge of some parts adds to deficits: the squared distance of coordinates, times a
        // factor of both sides.
        template <int PARTS>
        INLINE V distance(int64_t row, int64_t parts, int64_t j) const
        {
            if (PARTS) {
                V sum{};
                UNROLL for (int64_t t = 2; t <= PARTS; t++)
                {
                    const V e = left(row + t, j) - right(row + t, j);
                    sum = fused(e, e, sum);
                }
                return product(row + 1, j) * sum;
            }
            return product(row + 1, j) *
                   in_parts(parts - 1, [&](int64_t t, V sum) __attribute__((always_inline)) {
                       const V e = left(row + 2 + t, j) - right(row + 2 + t, j);
                       return fused(e, e, sum);
                   });
        }
    };
    INLINE Rows rows_from(int64_t j) const
    {
        return {x.rows + left_place[j] - j, z.rows + right_place[j] - j * step, x.stride, z.stride,
                step};
    }
    // Call body(rows, j, end) for each run of a window's rows.
    template <class Body>
    INLINE void runs(int64_t window, int64_t begin, int64_t end, Body body) const
    {
        for (int64_t j = begin, stop; j < end; j = stop) {
            stop = run_of[window][j] < end ? run_of[window][j] : end;
            if (stop - j > LONG) stop = j + LONG;
            body(rows_from(j), j, stop);
        }
    }

    INLINE explicit Strips(const Job &job)
        : job(job), left_length(0), right_length(0), memory(nullptr)
    {
    }
    static INLINE V number(double value) { return every<V>(R(value)); }
    bool stopped() const { return __atomic_load_n(job.stop, __ATOMIC_RELAXED); }
    // ------------------------------------------------------------------ rows

    // Lay out the rows of a left signal of d and a right signal of e pixels; return whether there
    // is memory.
    //
    // An open strip begins and ends as far out as all windows reach. Where all their steps are
    // multiples of a unit that is longer than the left signal, the pixels between the taps are
    // never read, and have no rows.
    bool lay_out(int64_t d, int64_t e)
    {
        if (left_length == d && right_length == e) return true;
        int64_t taps = 0, a = d, b = e;
        while (b) {
            const int64_t c = a % b;
            a = b;
            b = c;
        }
        const int64_t ring = d / a * e, own = job.head == PIXEL_1 ? 1 : d;
        unit = 0;
        for (int64_t m = 0; m < job.n_windows; m++) {
            taps += job.windows[m].n_taps;
            for (b = job.windows[m].dilation; b;) {
                const int64_t c = unit % b;
                unit = b;
                b = c;
            }
        }
        for (int64_t l = 0; l < job.depth; l++)
            if (job.layers[l].joined >= 0) unit = 1;
        own_unit = unit > own ? own : unit;
        int64_t margin = 0;
        for (int64_t m = 0; m < job.n_operations && margin < ring; m++)
            margin += reach(job.windows[job.operations[m].window]);
        for (int64_t l = 0; l < job.depth; l++) margin += job.layers[l].joined >= 0 ? 2 : 0;
        closed = job.height || ring <= own + 2 * margin || (d == e && own == d);
        n = closed ? ring : own + 2 * margin, first = closed ? 0 : margin, last = first + own;
        left_length = d, right_length = e;
        points = job.head == SHARES ? d : 1, lanes = job.all_pairs ? 1 : W;
        const int64_t n_sums = 2 * (job.depth + 1) * points * lanes;
        free(memory);
        together = job.all_pairs ? 1 : job.last_left - job.first_left;
        if (together > TOGETHER) together = TOGETHER;
        while (together > 1 && together * n > MOST_ROWS) together--;
        const int64_t apart_by =
            n + 5;  // at powers of 2, arrays would take each other's place in the cache
        if (posix_memalign(&memory, 64,
                           sizeof(V) * (6 + 6 * together) * apart_by +
                               8 * (2 * together * n_sums + 2 * job.n_windows + 1) +
                               4 * (3 + taps + job.n_windows) * n)) {
            memory = nullptr, left_length = 0;
            return false;
        }
        V *p = (V *)memory;
        auto array = [&] { return p += apart_by, p - apart_by; };
        for (State *state : {&one, &other}) *state = {array(), array(), array()};
        for (int64_t s = 0; s < together; s++)
            strips[s].features = {array(), array(), array()},
            strips[s].apart = {array(), array(), array()};
        sums = (double *)p;
        for (int64_t s = 0; s < together; s++) strips[s].sums = sums + s * n_sums;
        owed = together * n_sums;
        near_of = (int32_t **)(sums + 2 * owed), run_of = near_of + job.n_windows;
        left_place = (int32_t *)(run_of + job.n_windows + 1), right_place = left_place + n;
        int32_t *at = right_place + n;
        step = job.all_pairs ? 1 : job.lanes;
        for (int64_t j = 0; j < n; j++) left_place[j] = place(modulo(position(j), d), d, 0);
        place_right(0);
        for (int64_t m = 0; m < job.n_windows; m++) {
            const Window &w = job.windows[m];
            near_of[m] = at;
            for (int64_t t = -(w.n_taps / 2); t <= w.n_taps / 2; t++)
                for (int64_t j = 0; j < n; j++) *at++ = neighbour(j, t * rows_of(w), w.axis);
        }
        for (int64_t m = 0; m <= job.n_windows; m++, at += n) {
            run_of[m] = at;
            const int64_t taps = m < job.n_windows ? job.windows[m].n_taps : 0;
            for (int64_t j = n - 1; j >= 0; j--) {
                bool follows = j + 1 < n && left_place[j + 1] == left_place[j] + 1 &&
                               right_place[j + 1] == right_place[j] + step;
                for (int64_t t = 0; t < taps && follows; t++)
                    follows = near_of[m][t * n + j + 1] == near_of[m][t * n + j] + 1;
                at[j] = follows ? at[j + 1] : int32_t(j + 1);
            }
        }
        return true;
    }
    // Rows from one tap of a window to the next, and from the middle tap to the last.
    int64_t rows_of(const Window &w) const
    {
        return closed || unit == own_unit ? w.dilation : w.dilation / unit * own_unit;
    }
    int64_t reach(const Window &w) const
    {
        return (unit == own_unit ? w.dilation : w.dilation / unit * own_unit) * (w.n_taps / 2);
    }
    // The pixels from a strip's first own pixel to a row's.
    int64_t position(int64_t j) const
    {
        if (closed || unit == own_unit) return j - first;
        const int64_t turns = (j - first - modulo(j - first, own_unit)) / own_unit;
        return j - first + turns * (unit - own_unit);
    }
    // The place of a pixel in a row of a table, some lines of an image further on.
    int32_t place(int64_t pixel, int64_t length, int64_t lines) const
    {
        const int64_t width = job.height ? job.width : length,
                      line = job.all_pairs ? 2 * width + job.lanes : width;
        return int32_t((job.height ? (pixel / width + lines) % job.height : 0) * line +
                       pixel % width);
    }
    void place_right(int64_t lines)
    {
        for (int64_t j = 0; j < n; j++) {
            const int64_t pixel = modulo(position(j), right_length);
            right_place[j] =
                job.all_pairs ? place(pixel, right_length, lines) : int32_t(pixel * job.lanes);
        }
    }
    int32_t neighbour(int64_t j, int64_t shift, int64_t axis) const
    {
        if (!closed)
            return int32_t(
                j + shift < 0 || j + shift >= n ? j : j + shift);  // beyond the ends: never used
        if (!job.height) return int32_t(modulo(j + shift, n));
        const int64_t y = j / job.width, x = j % job.width;
        return int32_t(axis ? y * job.width + modulo(x + shift, job.width)
                            : modulo(y + shift, job.height) * job.width + x);
    }

    // ------------------------------------------------------------------ the layers of a strip

    // What a rounded weight lacks. Without it all layers would err in the same direction.
    static INLINE V rest_of(const Window &w)
    {
        return number(w.weight - double(R(w.weight)) + w.rest);
    }

    template <bool WITH_OPPOSITE, int TAPS, bool TRIANGLE = false>
    void window(const Operation &merge, const State &in, const State &out, int64_t begin, int64_t end)
    {
        const int64_t taps = TAPS ? TAPS : job.windows[merge.window].n_taps, n = this->n;
        const int32_t *near = near_of[merge.window];
        const V weight = number(job.windows[merge.window].weight),
                rest = rest_of(job.windows[merge.window]), two = number(2);
        runs(merge.window, begin, end,
             [&](const Rows &at, int64_t from, int64_t to) __attribute__((always_inline)) {
                 int64_t shift[TAPS ? TAPS : 1] = {};
                 UNROLL for (int t = 0; t < TAPS; t++) shift[t] = near[t * n + from] - from;
                 for (int64_t j = from; j < to; j++) {
                     const V N = at.template distance<TAPS>(merge.row, taps, j);
                     // The sum of two taps on both sides of the middle.
                     auto pair = [&](const V *values, int64_t t) __attribute__((always_inline)) {
                         const int64_t u = taps - 1 - t;
                         return TAPS ? values[j + shift[t]] + values[j + shift[u]]
                                     : values[near[t * n + j]] + values[near[u * n + j]];
                     };
                     // The mean is exact where all taps are equal: their sums would round alike in
                     // all layers.
                     auto mean_of = [&](const V *values, auto plus) __attribute__((always_inline)) {
                         const V here = values[j];
                         auto apart = [&](int64_t t, V sum) __attribute__((always_inline)) {
                             return sum + fused(-two, here, pair(values, t));
                         };
                         const V sum = !TAPS       ? in_parts(taps / 2, apart)
                                       : TAPS == 3 ? apart(0, V{})
                                                   : apart(1, apart(0, V{}));
                         return fused(weight, sum, plus(here));
                     };
                     auto mean_of_triangle = [&](const V *values,
                                                 auto plus) __attribute__((always_inline)) {
                         const V sum = fused(number(3), values[j],
                                             fused(two, pair(values, 1), pair(values, 0)));
                         return fused(weight, sum, plus(rest * sum));
                     };
                     auto mean = [&](const V *values, auto plus) __attribute__((always_inline)) {
                         if constexpr (TRIANGLE)
                             return mean_of_triangle(values, plus);
                         else
                             return mean_of(values, plus);
                     };
                     auto with_N = [&](V value)
                                       __attribute__((always_inline)) { return value + N; };
                     out.U[j] = mean(in.U, with_N);
                     if (WITH_OPPOSITE) out.O[j] = mean(in.O, with_N);
                     if (NTK)
                         out.A[j] = mean(
                             in.A, [](V value) __attribute__((always_inline)) { return value; });
                 }
             });
    }
    // Return the state behind the windows of some merges: `in` itself if there is none.
    template <bool WITH_OPPOSITE>
    State windows(int64_t m, int64_t count, State in, int64_t &begin, int64_t &end)
    {
        for (; count > 0; count--, m++) {
            const Window &w = job.windows[job.operations[m].window];
            const State out = free_state(in);
            if (!closed) begin += reach(w), end -= reach(w);
            if (w.n_taps == 3)
                window<WITH_OPPOSITE, 3>(job.operations[m], in, out, begin, end);
            else if (w.is_triangle)
                window<WITH_OPPOSITE, 5, true>(job.operations[m], in, out, begin, end);
            else if (w.n_taps == 5)
                window<WITH_OPPOSITE, 5>(job.operations[m], in, out, begin, end);
            else
                window<WITH_OPPOSITE, 0>(job.operations[m], in, out, begin, end);
            in = out;
        }
        return in;
    }
    // A state that neither the features nor `in` are in.
    State free_state(const State &in) const { return in.U == one.U ? other : one; }

    // Operation a bias into the deficits of a state, and add its product, times a factor, to A.
    template <bool WITH_OPPOSITE>
    void bias(int64_t row, double product, double factor, const State &in, int64_t begin,
              int64_t end)
    {
        if (row < 0) return;
        const V twice = number(2.0 * product) * biases, more = number(factor * product) * biases;
        runs(job.n_windows, begin, end,
             [&](const Rows &at, int64_t j, int64_t to) __attribute__((always_inline)) {
                 for (; j < to; j++) {
                     const V N = at.template distance<2>(row, 2, j);
                     in.U[j] = in.U[j] + N;
                     if (WITH_OPPOSITE) in.O[j] = in.O[j] + (twice + N);
                     if (NTK) in.A[j] = in.A[j] + more;
                 }
             });
    }

    // U, U+ and A of the input's pixels.
    void enter(int64_t &begin, int64_t &end)
    {
        const int64_t C = job.channels, root = job.n_input ? job.operations[job.n_input - 1].row : C;
        const V half = number(0.5), most = number(1.9), initial = number(job.initial);
        runs(job.n_windows, begin, end,
             [&](const Rows &at, int64_t j, int64_t to) __attribute__((always_inline)) {
                 for (; j < to; j++) {
                     V s{}, t{};
                     s = in_parts(C, [&](int64_t c, V sum) __attribute__((always_inline)) {
                         const V e = at.left(c, j) - at.right(c, j);
                         return fused(e, e, sum);
                     });
                     const V g = at.product(C, j), w = half * s;
                     V v = number(2.0) - w;
                     if (any_less(most, w)) {  // 2 - w has lost its digits
                         t = in_parts(C, [&](int64_t c, V sum) __attribute__((always_inline)) {
                             const V e = at.left(c, j) + at.right(c, j);
                             return fused(e, e, sum);
                         });
                         v = pick(most, w, half * t, v);
                     }
                     features.U[j] = g * w, features.O[j] = g * v;
                     if (NTK) features.A[j] = V{};
                 }
             });
        if (job.n_input) take(windows<true>(0, job.n_input, features, begin, end));
        Sum linear;
        runs(job.n_windows, begin, end,
             [&](const Rows &at, int64_t j, int64_t to) __attribute__((always_inline)) {
                 for (; j < to; j++) {
                     const V g = at.product(root, j), U = features.U[j], O = features.O[j],
                             F = pick(U, O, g - U, O - g);
                     if (NTK) features.A[j] = initial * F;
                     if (job.head >= PIXEL_1) apart.linear[j] = F, apart.F[j] = apart.A[j] = V{};
                     if (j < first || j >= last || job.all_pairs) continue;
                     if (job.head == SHARES)
                         add(0, j - first, F, F);
                     else
                         linear += F;
                 }
                 if (linear.terms >= LONG) settle(0, linear, linear);
             });
        if (!job.all_pairs && job.head == SUMS) settle(0, linear, linear);
    }
    // Let a state take the place of the features.
    void take(const State &in)
    {
        State &free = in.U == one.U ? one : other;
        const State kept = features;
        features = in, free = kept;
    }

    // K and M of pre-activations `in`, and the branch's deficits, to `out`; their sums are those of
    // a layer.
    template <bool WITH_OPPOSITE>
    void activate(const Layer &l, int64_t number_of, const State &in, const State &out,
                  int64_t begin, int64_t end)
    {
        const V lambda = number(job.linear_share), two = number(2.0);
        const V c = number(job.inner_minus_readout), both = number(job.outer_plus_readout);
        const bool leaks = job.linear_share != 0.0, turns = job.inner_minus_readout != 0.0,
                   shares = job.head == SHARES;
        Sum K_sum, M_sum;
        runs(job.n_windows, begin, end,
             [&](const Rows &at, int64_t j, int64_t to) __attribute__((always_inline)) {
                 auto look = [&](int64_t j) __attribute__((always_inline)) {
                     const V inverse = at.product(l.inverse, j),
                             w = smaller(in.U[j] * inverse, two);
                     const V v = WITH_OPPOSITE ? smaller(in.O[j] * inverse, two) : two - w;
                     return Angle{w, v};
                 };
                 Angle next = look(j);  // ahead of the polynomials: it need not wait for them
                 for (; j < to; j++) {
                     const Angle now = next;
                     if (j + 1 < to) next = look(j + 1);
                     const V g = at.product(l.root, j), w = now.w, v = now.v;
                     const Dual<V> relu = dual(w, v);
                     V less = relu.less, more = two - less;
                     if (leaks)
                         less = fused(lambda, w - less, less), more = fused(lambda, v - more, more);
                     const V lacking = g * less, K = g - lacking;
                     V M{};
                     out.U[j] = lacking;
                     if (OPPOSITE) out.O[j] = g * more;
                     if (NTK) {
                         V A = in.A[j];
                         if (turns) A = fused(c, g * correlation(w, v), A);
                         M = times_slope(relu.k0, w, v, A);
                         if (leaks) M = fused(lambda, A - M, M);
                         out.A[j] = M = fused(both, K, M);
                     }
                     if (j < first || j >= last) continue;
                     if (shares)
                         add(number_of, j - first, K, M);
                     else
                         K_sum += K, M_sum += M;
                 }
                 if (K_sum.terms >= LONG) settle(number_of, K_sum, M_sum);
             });
        if (!shares) settle(number_of, K_sum, M_sum);
    }
    struct Angle {
        V w, v;
    };  // 1 - rho and 1 + rho

    // Operation a branch with the features that pass the layer: their mean, from the heavier one on, is
    // exact where both are equal. Without a skip connection, the branch's share alone is left.
    void merge_features(const Layer &l, const State &in, int64_t begin, int64_t end)
    {
        if (l.skip < 0) {
            take(in);
            return;
        }
        const V keep = number(l.keep), share = number(l.share);
        if (l.keep == 0.0)
            merge_as(l, in, begin, end, [&](V, V branch, auto plus) __attribute__((always_inline)) {
                return plus(share * branch);
            });
        else if (l.keep < l.share)
            merge_as(l, in, begin, end,
                     [&](V passing, V branch, auto plus) __attribute__((always_inline)) {
                         return fused(keep, passing - branch, plus(branch));
                     });
        else
            merge_as(l, in, begin, end,
                     [&](V passing, V branch, auto plus) __attribute__((always_inline)) {
                         return fused(share, branch - passing, plus(passing));
                     });
    }
    template <class Joined>
    INLINE void merge_as(const Layer &l, const State &in, int64_t begin, int64_t end, Joined joined)
    {
        const V kept = number(l.kept * job.initial);
        auto none = [](V value) __attribute__((always_inline)) { return value; };
        const int64_t branch = l.outer_bias >= 0 ? l.outer_bias
                               : l.n_outer       ? job.operations[l.outer + l.n_outer - 1].row
                                                 : l.root;
        const bool apart_too = job.head >= PIXEL_1;
        runs(job.n_windows, begin, end,
             [&](const Rows &at, int64_t j, int64_t to) __attribute__((always_inline)) {
                 for (; j < to; j++) {
                     const V N = at.template distance<2>(l.skip, 2, j);
                     auto with_N = [&](V value)
                                       __attribute__((always_inline)) { return value + N; };
                     features.U[j] = joined(features.U[j], in.U[j], with_N);
                     if (OPPOSITE) features.O[j] = joined(features.O[j], in.O[j], with_N);
                     if (apart_too)
                         apart.F[j] = joined(apart.F[j], at.product(branch, j) - in.U[j], none);
                     if (!NTK) continue;
                     V &A = apart_too ? apart.A[j] : features.A[j];
                     A = joined(A, in.A[j], none);
                     if (apart_too) features.A[j] = fused(kept, apart.linear[j], A);
                 }
             });
    }

    // One layer from features to features, or without `passes_on` its sums alone.
    template <bool WITH_OPPOSITE>
    void layer(int64_t number_of, bool passes_on, int64_t &begin, int64_t &end)
    {
        const Layer &l = job.layers[number_of - 1];
        State in = windows<WITH_OPPOSITE>(l.inner, l.n_inner, features, begin, end);
        if (l.enters && in.U != features.U) take(in), in = features;
        if (l.inner_bias >= 0 && in.U == features.U) in = copied<WITH_OPPOSITE>(in, begin, end);
        bias<WITH_OPPOSITE>(l.inner_bias, l.inner_product, job.readout, in, begin, end);
        State branch = free_state(in);
        const int64_t at_once = passes_on && !WITH_OPPOSITE && starts_with_triangle(l);
        if (at_once)
            joined_layer<false, false>(number_of, job.operations[l.outer], branch, begin, end);
        else
            activate<WITH_OPPOSITE>(l, number_of, in, branch, begin, end);
        if (!passes_on) return;
        branch = windows<OPPOSITE>(l.outer + at_once, l.n_outer - at_once, branch, begin, end);
        bias<OPPOSITE>(l.outer_bias, l.outer_product, job.outer_plus_readout, branch, begin, end);
        merge_features(l, branch, begin, end);
    }
    // Whether a layer's activation and the first five taps behind it may go through `joined_layer`.
    bool starts_with_triangle(const Layer &l) const
    {
        if (!l.enters || OPPOSITE || job.linear_share != 0.0 || job.inner_minus_readout != 0.0 ||
            job.height)
            return false;
        const Window &w = job.windows[job.operations[l.outer].window];
        return w.is_triangle && w.dilation == 1;
    }
    template <bool WITH_OPPOSITE>
    State copied(const State &in, int64_t begin, int64_t end)
    {
        const State out = free_state(in);
        for (int64_t j = begin; j < end; j++) {
            out.U[j] = in.U[j];
            if (WITH_OPPOSITE) out.O[j] = in.O[j];
            if (NTK) out.A[j] = in.A[j];
        }
        return out;
    }

    // From pre-activations, in `features`, to the next layer's: through two filters of 3 and the
    // skip connection, one merge of five taps with weights 1 2 3 2 1. There is no bias, leak or U+
    // but in layer 1, whose pre-activations, the input, pass the filter of layer 2 too.
    //
    // Without WITH_SKIP, only the first five taps of longer filters, to `out`: no bias, leak or U+,
    // and step 1.
    template <bool FIRST, bool WITH_SKIP>
    void joined_layer(int64_t number_of, const Operation &merge, const State &out, int64_t &begin,
                      int64_t &end)
    {
        const Layer &l = job.layers[number_of - 1];
        const V ninth = number(job.windows[merge.window].weight),
                rest = rest_of(job.windows[merge.window]);
        const int64_t n = this->n;
        const V share = number(l.share), keep = number(l.keep),
                both = number(job.outer_plus_readout), two = number(2.0);
        Sum K_sum, M_sum;
        struct Window3 {
            V second, first, sum2, sum1;
        } of_u{}, of_m{};  // the last two terms, and sums of three
        auto look = [&](const Rows &at, int64_t j) __attribute__((always_inline)) {
            const V w = smaller(features.U[j] * at.product(l.inverse, j), two);
            const V v = FIRST ? smaller(features.O[j] * at.product(l.inverse, j), two) : two - w;
            return Angle{w, v};
        };
        auto activate = [&](const Rows &at, int64_t j, const Angle &angle, bool counts, V &u,
                            V &m) __attribute__((always_inline)) {
            const V g = at.product(l.root, j);
            const Dual<V> relu = dual(angle.w, angle.v);
            u = g * relu.less;
            const V K = g - u;
            if (NTK) m = fused(both, K, times_slope(relu.k0, angle.w, angle.v, features.A[j]));
            if (counts) K_sum += K, M_sum += m;
        };
        auto push = [](Window3 &w, V term) __attribute__((always_inline)) {
            const V sum = (w.second + term) + w.first, box = (w.sum2 + sum) + w.sum1;
            w.second = w.first, w.first = term, w.sum2 = w.sum1, w.sum1 = sum;
            return box;
        };
        const int64_t before =
            closed ? n - 1 : begin + 1;  // the row before the first one that is written
        const V first_U = features.U[0], first_A = NTK ? features.A[0] : V{};
        V before_U = features.U[before], before_A = NTK ? features.A[before] : V{};
        // The sum of three neighbours, of which the first one is overwritten.
        auto of_three = [&](const V *values, int64_t j, V &before,
                            V first) __attribute__((always_inline)) {
            const V here = values[j], sum = (before + (j + 1 < n ? values[j + 1] : first)) + here;
            before = here;
            return sum;
        };
        auto write = [&](const Rows &at, int64_t j, V u, V m) __attribute__((always_inline)) {
            const V box_u = push(of_u, u), box_m = push(of_m, m),
                    N = at.template distance<5>(merge.row, 5, j);
            if (!WITH_SKIP) {
                out.U[j] = fused(ninth, box_u, fused(rest, box_u, N));
                if (NTK) out.A[j] = fused(ninth, box_m, rest * box_m);
                return;
            }
            const V U = FIRST ? of_three(features.U, j, before_U, first_U) : features.U[j];
            features.U[j] = fused(share, box_u, fused(keep, U, N));
            if (!NTK) return;
            const V A = FIRST ? of_three(features.A, j, before_A, first_A) : features.A[j];
            features.A[j] = fused(share, box_m, keep * A);
        };
        // Windows begin with four rows: of a ring, the last two and the first two, which it ends
        // with too; of a ring of less than four, all rows.
        V u[4], m[4] = {V{}, V{}, V{}, V{}};
        const bool is_short = closed && n < 4;
        for (int64_t k = 0; k < (is_short ? n : 4); k++) {
            const int64_t j = is_short ? k : closed ? modulo(k - 2, n) : begin + k;
            const Rows at = rows_from(j);
            activate(at, j, look(at, j), j >= first && j < last, u[k], m[k]);
        }
        for (int64_t j = 0; is_short && j < n; j++) {
            for (int64_t k = j - 2; k < j + 2; k++)
                push(of_u, u[modulo(k, n)]), push(of_m, m[modulo(k, n)]);
            write(rows_from(j), j, u[(j + 2) % n], m[(j + 2) % n]);
        }
        for (int64_t k = 0; k < 4; k++) push(of_u, u[k]), push(of_m, m[k]);
        const int64_t stop = is_short ? 0 : closed ? n - 2 : end;
        auto pass = [&](const Rows &at, const Rows &behind, bool counts, int64_t j, int64_t to)
                        __attribute__((always_inline)) {
                            for (Angle next = look(at, j); j < to; j++) {
                                V a, b{};
                                const Angle now = next;
                                next = look(at, j + 1);
                                activate(at, j, now, counts, a, b);
                                write(behind, j - 2, a, b);
                            }
                        };
        for (int64_t j = closed ? 2 : begin + 4, to; j < stop; j = to) {
            const bool counts = j >= first && j < last;
            to = stop;
            for (const int64_t cut :
                 {int64_t(run_of[job.n_windows][j]), int64_t(run_of[job.n_windows][j - 2]) + 2,
                  counts ? last : first, j + LONG})
                if (j < cut && cut < to) to = cut;
            const Rows at = rows_from(j), behind = rows_from(j - 2);
            if (counts && at.x == behind.x && at.z == behind.z)
                pass(at, at, true, j, to);
            else
                pass(at, behind, counts, j, to);
            if (K_sum.terms >= LONG) settle(number_of, K_sum, M_sum);
        }
        for (int64_t k = 0; closed && !is_short && k < 4; k++)
            write(rows_from(n - 4 + k), n - 4 + k, u[k], m[k]);
        if (!closed) begin += 2, end -= 2;
        settle(number_of, K_sum, M_sum);
    }

    // All layers of some strips together; return false if the call is to end. place_of(strip, j,
    // lane) is the place of a kernel, for the heads of pixels.
    template <class Place>
    bool all_layers(int64_t count, Place place_of)
    {
        for (int64_t number_of = 0; number_of <= job.depth; number_of++)
            for (int64_t s = 0; s < count; s++) {
                if (stopped()) return false;
                Strip &strip = strips[s];
                x = strip.x, features = strip.features, apart = strip.apart, sums = strip.sums,
                biases = strip.biases;
                if (number_of == 0)
                    strip.begin = 0, strip.end = n, enter(strip.begin, strip.end);
                else
                    any_layer(number_of, strip.begin, strip.end);
                strip.features = features;
                if (number_of && job.layers[number_of - 1].report >= 0 && job.head >= PIXEL_1)
                    report(job.layers[number_of - 1],
                           [&](int64_t j, int64_t q) { return place_of(s, j, q); });
            }
        return true;
    }
    // Clear the sums of some strips.
    void clear(int64_t count)
    {
        for (int64_t k = 0; k < count * 2 * (job.depth + 1) * points * lanes; k++)
            strips[0].sums[k] = strips[0].sums[owed + k] = 0.0;
        sums = strips[0].sums;
    }
    void any_layer(int64_t number_of, int64_t &begin, int64_t &end)
    {
        const bool passes_on = job.head >= PIXEL_1 || number_of < job.depth;
        if (job.layers[number_of - 1].joined >= 0) {
            const Operation merge{job.layers[number_of - 1].joined, 0};
            if (number_of == 1)
                joined_layer<true, true>(number_of, merge, features, begin, end);
            else
                joined_layer<false, true>(number_of, merge, features, begin, end);
        } else if (number_of == 1)
            layer<true>(number_of, passes_on, begin, end);
        else
            layer<OPPOSITE>(number_of, passes_on, begin, end);
    }

    // ------------------------------------------------------------------ results

    // Add sums of a layer to the sums of the pair, or pairs, and begin new ones.
    INLINE void settle(int64_t layer, Sum &K, Sum &M)
    {
        K.flush();
        if (&M != &K) M.flush();
        add(layer, 0, K.total, M.total);
        K = M = Sum();
    }
    template <class T>
    INLINE void add(int64_t layer, int64_t point, const T &K, const T &M)
    {
        double *k = sums + (layer * points + point) * lanes,
               *m = k + (job.depth + 1) * points * lanes;
        const bool is_long = right_length > LONG;
        if (!job.all_pairs) {
            for (int q = 0; q < W; q++) {
                if (is_long)
                    add_to(k[q], k[owed + q], double(K[q])),
                        add_to(m[q], m[owed + q], double(M[q]));
                else
                    k[q] += double(K[q]), m[q] += double(M[q]);
            }
            return;
        }
        for (int64_t q = 0; q < valid; q += AT_ONCE) {
            double of_K = 0, of_M = 0;
            for (int64_t p = q; p < q + AT_ONCE && p < valid; p++)
                of_K += double(K[p]), of_M += double(M[p]);
            if (is_long)
                add_to(*k, k[owed], of_K), add_to(*m, m[owed], of_M);
            else
                *k += of_K, *m += of_M;
        }
    }
    template <class Place>
    void report(const Layer &l, Place place_of)
    {
        const int64_t numbers =
            job.cases * job.columns * (job.head == PIXELS ? job.extent * job.extent : 1);
        for (int64_t j = first; j < last; j++) {
            const V F = l.skip < 0 ? rows_from(j).product(l.features, j) - features.U[j]
                                   : fused(number(l.kept), apart.linear[j], apart.F[j]);
            for (int64_t q = 0; q < valid; q++) {
                const int64_t at = place_of(j - first, q);
                if (at < 0) continue;
                if (job.gpk) job.gpk[l.report * numbers + at] = double(F[q]);
                if (job.ntk && NTK) job.ntk[l.report * numbers + at] = double(features.A[j][q]);
            }
        }
    }
    // The kernels at the depths asked for, from sums of each layer: numbers at `at`, and at
    // `mirrored` if that is not -1.
    void finish(int64_t lane, double count, double of_biases, int64_t at, int64_t mirrored)
    {
        const int64_t size = (job.depth + 1) * points * lanes,
                      numbers = job.cases * job.columns * (job.head == SHARES ? job.extent : 1);
        if (job.head == SHARES)
            for (int64_t layer = 1; layer <= job.depth; layer++)
                for (int kind = 0; kind < 2; kind++)
                    average(sums + kind * size + layer * points * lanes + lane,
                            job.layers[layer - 1]);
        for (int64_t p = 0; p < points; p++) {
            const double *K = sums + p * lanes + lane, *M = K + size, linear = *K;
            double F = 0, A = 0, kept = 1;
            for (int64_t layer = 1; layer <= job.depth; layer++) {
                const Layer &l = job.layers[layer - 1];
                const double product = of_biases * l.outer_product, *k = K + layer * points * lanes,
                             *m = M + layer * points * lanes;
                F = job.keep * F + job.share * (*k + product);
                A = job.keep * A + job.share * (*m + job.outer_plus_readout * product);
                kept *= job.keep;
                if (l.report < 0) continue;
                for (const int64_t place : {at, mirrored}) {
                    if (place < 0) continue;
                    if (job.gpk)
                        job.gpk[l.report * numbers + place + p] = (F + kept * linear) / count;
                    if (job.ntk)
                        job.ntk[l.report * numbers + place + p] =
                            (A + kept * job.initial * linear) / count;
                }
            }
        }
    }
    // The means over the outer filter's windows of numbers at the left pixels, in place.
    void average(double *numbers, const Layer &l)
    {
        double *room = (double *)one.U;
        for (int64_t m = l.outer; m < l.outer + l.n_outer; m++) {
            const Window &w = job.windows[job.operations[m].window];
            for (int64_t p = 0; p < points; p++) {
                double sum = 0;
                for (int64_t t = -(w.n_taps / 2); t <= w.n_taps / 2; t++)
                    sum += numbers[lanes * ring(p, t * w.dilation, w.axis)];
                room[p] = sum / double(w.n_taps);
            }
            for (int64_t p = 0; p < points; p++) numbers[lanes * p] = room[p];
        }
    }
    int64_t ring(int64_t p, int64_t shift, int64_t axis) const
    {
        if (!job.height) return modulo(p + shift, points);
        const int64_t y = p / job.width, x = p % job.width;
        return axis ? y * job.width + modulo(x + shift, job.width)
                    : modulo(y + shift, job.height) * job.width + x;
    }

    // ------------------------------------------------------------------ pairs of signals

    Table<R> table(const Side &side, int64_t signal, bool in_blocks) const
    {
        const int64_t d = side.length[signal], width = job.height ? job.width : d;
        const R *rows = (const R *)side.rows + side.begin[in_blocks ? signal / job.lanes : signal];
        if (!job.all_pairs) return {rows, in_blocks ? d * job.lanes : d};
        return {rows, (job.height ? job.height : 1) * (2 * width + job.lanes)};
    }
    int run() { return job.all_pairs ? run_pairs() : run_blocks(); }

    // Lanes are pixels of one right signal.
    int run_pairs()
    {
        for (int64_t i = job.first_left; i < job.last_left; i++) {
            const int64_t begin = job.paired                             ? i
                                  : job.symmetric && job.first_right < i ? i
                                                                         : job.first_right;
            for (int64_t k = begin; k < (job.paired ? i + 1 : job.last_right); k++) {
                const Side *a = &job.left, *b = &job.right;
                int64_t s = i, t = k;
                const int64_t longer = b->length[t] - a->length[s];
                x = table(*a, s, false), z = table(*b, t, false);
                if (job.head == SUMS &&
                    (longer > 0 || (longer == 0 && comes_before(b->key[t], z.rows, a->key[s],
                                                                x.rows, job.n_rows * x.stride)))) {
                    a = &job.right, b = &job.left, s = k, t = i;
                }
                const int64_t d = a->length[s], e = b->length[t], wide = job.height ? job.width : e;
                if (!lay_out(d, e)) return NO_MEMORY;
                strips[0].x = table(*a, s, false), z = table(*b, t, false);
                const Table<R> whole = z;
                const double product = a->bias[s] * b->bias[t];
                const int64_t column = job.paired ? 0 : k, case_at = i * job.columns + column;
                strips[0].biases = number(product);
                clear(1);
                linear_sums(*a, s, *b, t);
                for (int64_t lines = 0; lines < (job.height ? job.height : 1); lines++) {
                    if (job.height) place_right(lines);
                    for (int64_t offset = 0; offset < wide; offset += W) {
                        z.rows = whole.rows + offset;
                        valid = wide - offset < W ? wide - offset : int64_t(W);
                        const bool done = all_layers(
                            1, [&](int64_t, int64_t j, int64_t q) __attribute__((always_inline)) {
                                const int64_t y = j / wide,
                                              other = (y + lines) % (job.height ? job.height : 1) *
                                                          wide +
                                                      (j % wide + offset + q) % wide;
                                return (case_at * job.extent + j) * job.extent +
                                       (job.height ? other : (j + offset + q) % e);
                            });
                        if (!done) return STOPPED;
                    }
                }
                const double points_summed = job.head == SHARES ? double(e) : double(d) * double(e);
                const int64_t scale = job.head == SHARES ? job.extent : 1;
                if (job.head <= SHARES)
                    finish(0, double(d) * double(e), points_summed * product, case_at * scale,
                           job.symmetric ? k * job.columns + i : -1);
                if (job.head == PIXELS && job.symmetric && k > i) transpose(i, k);
            }
        }
        return DONE;
    }
    // The sums of F0 over pixel pairs: products of means, which may be 0 where the terms are not.
    void linear_sums(const Side &a, int64_t s, const Side &b, int64_t t)
    {
        if (job.head > SHARES) return;
        const int64_t C = job.channels, d = a.length[s];
        for (int64_t p = 0; p < points; p++) {
            double sum = 0;
            for (int64_t c = 0; c < C; c++)
                sum += (job.head == SHARES ? a.parts[(s * C + c) * a.longest + p]
                                           : a.means[s * C + c]) *
                       b.means[t * C + c];
            sums[p] = sum * double(b.length[t]) * (job.head == SHARES ? 1.0 : double(d));
        }
    }
    void transpose(int64_t i, int64_t k)
    {
        const int64_t n = job.extent;
        for (int64_t layer = 0; layer < job.depth; layer++)
            for (double *results : {job.gpk, job.ntk}) {
                if (job.layers[layer].report < 0 || !results) continue;
                double *block =
                    results + job.layers[layer].report * job.cases * job.columns * n * n;
                const double *from = block + (i * job.columns + k) * n * n;
                double *to = block + (k * job.columns + i) * n * n;
                for (int64_t j = 0; j < n; j++)
                    for (int64_t q = 0; q < n; q++) to[q * n + j] = from[j * n + q];
            }
    }

    // Lanes are right signals; some left signals go through the layers together.
    int run_blocks()
    {
        for (int64_t i = job.first_left, count; i < job.last_left; i += count) {
            const int64_t d = job.left.length[i];
            if (!lay_out(d, d)) return NO_MEMORY;
            count = job.paired ? 1 : job.last_left - i < together ? job.last_left - i : together;
            const int64_t group =
                job.lanes < W ? job.lanes : int64_t(W);  // the lanes behind it are not used
            const int64_t begin = job.paired                             ? i
                                  : job.symmetric && job.first_right < i ? i
                                                                         : job.first_right;
            const int64_t end = job.paired ? i + 1 : job.last_right;
            for (int64_t block = begin / group * group; block < end; block += group) {
                z = table(job.right, block, true);
                z.rows += block % job.lanes;
                valid = W;
                double products[TOGETHER][W];
                for (int64_t s = 0; s < count; s++) {
                    strips[s].x = table(job.left, i + s, false);
                    for (int q = 0; q < W; q++) {
                        products[s][q] = block + q < end
                                             ? job.left.bias[i + s] * job.right.bias[block + q]
                                             : 0.0;
                        strips[s].biases[q] = R(products[s][q]);
                    }
                }
                auto counts = [&](int64_t s, int64_t q) {
                    const int64_t k = block + q;
                    return q < group && k >= begin && k < end && !(job.symmetric && k < i + s);
                };
                auto place_of = [&](int64_t s, int64_t q) {
                    return (i + s) * job.columns + (job.paired ? 0 : block + q);
                };
                clear(count);
                const bool done = all_layers(
                    count, [&](int64_t s, int64_t, int64_t q) __attribute__((always_inline)) {
                        return counts(s, q) ? place_of(s, q) : int64_t(-1);
                    });
                if (!done) return STOPPED;
                for (int64_t s = 0; s < count; s++)
                    for (int64_t q = 0; q < W; q++) {
                        if (!counts(s, q)) continue;
                        sums = strips[s].sums;
                        const int64_t at = place_of(s, q),
                                      mirrored =
                                          job.symmetric ? (block + q) * job.columns + i + s : -1;
                        if (job.head == SHARES)
                            finish(q, double(d), products[s][q], at * job.extent, -1);
                        if (job.head == SUMS)
                            finish(q, double(d), double(d) * products[s][q], at, mirrored);
                        if (job.head == PIXEL_1 && job.symmetric) mirror(at, mirrored);
                    }
            }
        }
        return DONE;
    }
    void mirror(int64_t at, int64_t mirrored)
    {
        for (int64_t layer = 0; layer < job.depth; layer++) {
            const int64_t begin = job.layers[layer].report * job.cases * job.columns;
            if (begin < 0) continue;
            if (job.gpk) job.gpk[begin + mirrored] = job.gpk[begin + at];
            if (job.ntk) job.ntk[begin + mirrored] = job.ntk[begin + at];
        }
    }
};

template <class R, bool OPPOSITE, bool NTK>
int run(const Job &job)
{
    Strips<R, OPPOSITE, NTK> strips(job);
    const int result = strips.run();
    free(strips.memory);
    return result;
}
template <class R>
int start(const Job *job)
{
    if (job->bytes != int64_t(sizeof(Job))) return OTHER_VERSION;
    if (job->has_opposite)
        return job->with_ntk ? run<R, true, true>(*job) : run<R, true, false>(*job);
    return job->with_ntk ? run<R, false, true>(*job) : run<R, false, false>(*job);
}
}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int rescntk_run_float64(const Job *job)
{
    return start<double>(job);
}
EXPORT int rescntk_run_float32(const Job *job)
{
    return start<float>(job);
}
EXPORT const char *rescntk_sources()
{
    return SOURCES;
}  // a digest of the files that this was compiled from
#if defined(LEVELS)  // in the library that works on every processor
// The best level of build.py's that this processor and its operating system have.
EXPORT int rescntk_level()
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2")) return 1;
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
          __builtin_cpu_supports("bmi2")))
        return 2;
    if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
          __builtin_cpu_supports("avx512vl")))
        return 3;
    return 4;
#else
    return 2;
#endif
}
#endif
