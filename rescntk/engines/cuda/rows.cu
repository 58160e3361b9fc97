// The recursion of ReLU networks (engines/windows.py) on rows of pixel pairs, on a GPU.
//
// A row is the pixel pairs (j, j') of all left pixels j and of LANES right pixels. Where all pixel
// pairs are wanted (ALL), lanes are neighbouring pixels j' of one right signal; else they are the
// pixels j' = j of LANES right signals. Filters move both pixels of a pair, so that they stay in a
// row, which is a ring (of images, a ring of rings).
//
// A team of threads takes a row through all layers. A thread has OWN left pixels, whose state stays
// in registers; windows read neighbouring pixels from shared memory. Results depend on the pair of
// signals alone: the order of all sums is fixed.
#include "../compiled/formulas.h"
#include "../compiled/records.h"

struct Launch {
    Job job;  // cases are counted from `first_row` and `first_column` on
    int64 first_row, first_column;
    int64 threads, teams;  // threads of a team, teams of a block
    int64 units;           // blocks of a pair of signals that share its offsets
    int64 slots;           // depths asked for; the sums of each unit are kept apart
    int64 row_bytes;       // of shared memory for a team
};

// A few pixels are unrolled, into registers; the state of more is in local memory, so that code
// stays short.
#define OVER_PIXELS _Pragma("unroll (OWN <= 2 ? OWN : 1)") for (int p = 0; p < OWN; p++)

constexpr int HALO = 2;    // pixels of a ring that stand twice, for windows of five taps
constexpr int TERMS = 32;  // of a sum, before it is added to the sum of sums

// N numbers that one instruction loads.
template <class R, int N>
struct Vector;
template <>
struct Vector<float, 1> {
    typedef float type;
};
template <>
struct Vector<float, 2> {
    typedef float2 type;
};
template <>
struct Vector<float, 4> {
    typedef float4 type;
};
template <>
struct Vector<double, 1> {
    typedef double type;
};
template <>
struct Vector<double, 2> {
    typedef double2 type;
};

template <class R, int LANES, int OWN, bool ALL, bool OPPOSITE, bool NTK, bool POINTS>
struct Rows {
    enum { SUMS_OF = ALL ? 1 : LANES };  // pairs of signals of a row
    typedef R Numbers[OWN][LANES];
    typedef typename Vector<R, LANES>::type Together;
    struct Pack {
        R of[LANES];
        FORMULA R operator[](int q) const { return of[q]; }
    };
    struct State {
        Numbers U, O, A;
    };  // the deficits U and U+ and the tangent kernel A

    const Launch &launch;
    const Job &job;
    const int t, threads, team, n, lines, width;
    char *const memory;  // of the team
    const R *x, *z;      // tables of both sides, and numbers of a row
    int x_stride, z_stride;
    int left_at[OWN], right_at[OWN];
    int valid;                // lanes that count
    const R lambda, c, both;  // constants of the job
    R biases[SUMS_OF];        // the products of both sides' biases
    State state;
    struct {
        Numbers linear, F, A;
    } apart;  // F0, and both kernels without it: of heads of pixels
    double F[SUMS_OF], A[SUMS_OF],
        linear[SUMS_OF];  // the thread's sums of both kernels without F0, and of F0

    __device__ Rows(const Launch &launch, char *shared)
        : launch(launch), job(launch.job), t(int(threadIdx.x % launch.threads)),
          threads(int(launch.threads)), team(int(threadIdx.x / launch.threads)),
          n(int(launch.job.extent)), lines(launch.job.height ? int(launch.job.height) : 1),
          width(n / lines), memory(shared + team * launch.row_bytes),
          lambda(R(launch.job.linear_share)), c(R(launch.job.inner_minus_readout)),
          both(R(launch.job.outer_plus_readout))
    {
    }

    // ------------------------------------------------------------------ pixels and tables

    FORMULA int pixel(int p) const { return t + p * threads; }
    FORMULA static int pair_of(int lane) { return ALL ? 0 : lane; }
    FORMULA bool mine(int p) const { return OWN == 1 || pixel(p) < n; }
    FORMULA const R *left(int64 row, int p) const { return x + (int(row) * x_stride + left_at[p]); }
    FORMULA const R *right(int64 row, int p) const
    {
        return z + (int(row) * z_stride + right_at[p]);
    }
    FORMULA static Pack together(const R *at)
    {
        const Together vector = *(const Together *)at;
        Pack pack;
        UNROLL for (int q = 0; q < LANES; q++) pack.of[q] = ((const R *)&vector)[q];
        return pack;
    }
    // A number of each lane. Of all pixel pairs, the first lane may be any pixel, so that nothing
    // is aligned.
    FORMULA static Pack lanes_of(const R *at)
    {
        if (!ALL) return together(at);
        Pack pack;
        UNROLL for (int q = 0; q < LANES; q++) pack.of[q] = at[q];
        return pack;
    }
    FORMULA R product(int64 row, int p, int q) const { return *left(row, p) * right(row, p)[q]; }

    // The places of the row's pixels in the tables, `shift` lines and `offset` pixels apart.
    FORMULA void place(int shift, int offset)
    {
        OVER_PIXELS
        {
            const int j = mine(p) ? pixel(p) : 0, y = j / width, column = j % width;
            if (ALL) {
                const int line = 2 * width + LANES;
                left_at[p] = y * line + column;
                right_at[p] = (y + shift) % lines * line + column + offset;
            } else
                left_at[p] = j, right_at[p] = j * LANES;
        }
    }
    // A pixel on a ring of pixels `stride` apart: along lines, or across them.
    struct Ring {
        int size, stride, place, pixel;
        FORMULA int wrapped(int at) const
        {
            return pixel + ((at < size ? at : at - size) - place) * stride;
        }
    };
    FORMULA Ring ring_of(int j, bool along) const
    {
        if (lines == 1) return {width, 1, j, j};
        return along ? Ring{width, 1, j % width, j} : Ring{lines, width, j / width, j};
    }
    // Add the squared differences of one part to sums.
    FORMULA static void differ(R a, const R *b, R (&sum)[LANES], R sign = -1)
    {
        const Pack other = lanes_of(b);
        UNROLL for (int q = 0; q < LANES; q++)
        {
            const R e = fused(sign, other[q], a);
            sum[q] = fused(e, e, sum[q]);
        }
    }
    // What a merge of some parts adds to deficits: the squared distance of coordinates, times a
    // factor of both sides.
    FORMULA void distance(int64 row, int parts, int p, R (&N)[LANES]) const
    {
        const R *a = left(row + 1, p), *b = right(row + 1, p);
        const Pack factor = lanes_of(b);
        R g[LANES];
        UNROLL for (int q = 0; q < LANES; q++) g[q] = *a * factor[q], N[q] = 0;
        UNROLL for (int part = 1; part < parts; part++) a += x_stride, b += z_stride,
            differ(*a, b, N);
        UNROLL for (int q = 0; q < LANES; q++) N[q] *= g[q];
    }

    // ------------------------------------------------------------------ windows

    // Numbers of kind 0 (U), 1 (A) or 2 (U+) of the pixels of the ring; with HALO more pixels on
    // both sides.
    FORMULA R *ring(int kind) const { return (R *)memory + (kind * (n + 2 * HALO) + HALO) * LANES; }
    FORMULA void put(int kind, const Numbers &numbers, bool halo) const
    {
        OVER_PIXELS
        {
            if (!mine(p)) continue;
            Together vector;
            UNROLL for (int q = 0; q < LANES; q++)((R *)&vector)[q] = numbers[p][q];
            Together *const at = (Together *)ring(kind) + pixel(p);
            *at = vector;
            if (halo && pixel(p) < HALO) at[n] = vector;
            if (halo && pixel(p) >= n - HALO) at[-n] = vector;
        }
    }
    // Leave a state for the team to read, between two barriers.
    template <bool WITH_OPPOSITE>
    FORMULA void show(const State &s, bool halo = false) const
    {
        __syncthreads();
        put(0, s.U, halo);
        if (NTK) put(1, s.A, halo);
        if (WITH_OPPOSITE) put(1 + NTK, s.O, halo);
        __syncthreads();
    }
    FORMULA void add(int kind, int pixel, R weight, R (&sum)[LANES]) const
    {
        const Pack pack = together(ring(kind) + pixel * LANES);
        UNROLL for (int q = 0; q < LANES; q++) sum[q] = fused(weight, pack[q], sum[q]);
    }
    // Add the distance to the number in the middle of a window: means of equal numbers are exact.
    FORMULA void add_apart(int kind, int pixel, R weight, const R (&middle)[LANES],
                           R (&sum)[LANES]) const
    {
        const Pack pack = together(ring(kind) + pixel * LANES);
        UNROLL for (int q = 0; q < LANES; q++) sum[q] = fused(weight, pack[q] - middle[q], sum[q]);
    }

    // Some taps of a window, from tap `begin` on: sums of the state's distances to the middle, and
    // of squared differences of coordinates.
    struct Taps {
        R U[LANES], O[LANES], A[LANES], N[LANES];
    };
    template <bool WITH_OPPOSITE>
    FORMULA void taps(const Window &w, int64 row, const State &s, int p, int begin, int end,
                      Taps &sum) const
    {
        const Ring ring_at = ring_of(pixel(p), w.axis);
        const int size = ring_at.size, step = w.dilation < size ? int(w.dilation) : int(w.dilation % size);
        int shift = (begin - int(w.n_taps) / 2) * step % size;
        if (shift < 0) shift += size;
        const R *a = left(row + begin, p), *b = right(row + begin, p);
        UNROLL for (int q = 0; q < LANES; q++) sum.U[q] = sum.O[q] = sum.A[q] = sum.N[q] = 0;
        for (int tap = begin; tap < end; tap++) {
            a += x_stride, b += z_stride;
            const int at = ring_at.wrapped(ring_at.place + shift);
            shift = shift + step < size ? shift + step : shift + step - size;
            if (tap > 0) differ(*a, b, sum.N);
            const R weight = R(w.is_triangle ? tap < 3 ? tap + 1 : 5 - tap : 1);
            add_apart(0, at, weight, s.U[p], sum.U);
            if (NTK) add_apart(1, at, weight, s.A[p], sum.A);
            if (WITH_OPPOSITE) add_apart(1 + NTK, at, weight, s.O[p], sum.O);
        }
    }
    template <bool WITH_OPPOSITE>
    FORMULA void window(const Operation &merge, State &s) const
    {
        const Window w = job.windows[merge.window];
        const R weight = R(w.weight);
        show<WITH_OPPOSITE>(s);
        OVER_PIXELS
        {
            if (!mine(p)) continue;
            Taps sum;
            taps<WITH_OPPOSITE>(w, merge.row, s, p, 0, w.n_taps < TERMS ? int(w.n_taps) : TERMS, sum);
            for (int begin = TERMS; begin < w.n_taps; begin += TERMS) {
                Taps more;
                taps<WITH_OPPOSITE>(w, merge.row, s, p, begin,
                                    begin + TERMS < w.n_taps ? begin + TERMS : int(w.n_taps), more);
                UNROLL for (int q = 0; q < LANES; q++) sum.U[q] += more.U[q], sum.O[q] += more.O[q],
                    sum.A[q] += more.A[q], sum.N[q] += more.N[q];
            }
            UNROLL for (int q = 0; q < LANES; q++)
            {
                const R N = product(merge.row + 1, p, q) * sum.N[q];
                s.U[p][q] += fused(weight, sum.U[q], N);
                if (WITH_OPPOSITE) s.O[p][q] += fused(weight, sum.O[q], N);
                if (NTK) s.A[p][q] = fused(weight, sum.A[q], s.A[p][q]);
            }
        }
    }
    template <bool WITH_OPPOSITE>
    FORMULA void windows(int64 first, int64 count, State &s) const
    {
        for (int64 m = first; m < first + count; m++) window<WITH_OPPOSITE>(job.operations[m], s);
    }
    // Operation a bias into the deficits of a state, and add its product, times a factor, to A.
    template <bool WITH_OPPOSITE>
    FORMULA void bias(int64 row, double of_layer, double factor, State &s) const
    {
        if (row < 0) return;
        OVER_PIXELS
        {
            R N[LANES];
            distance(row, 2, p, N);
            UNROLL for (int q = 0; q < LANES; q++)
            {
                const R of_pair = biases[pair_of(q)];
                s.U[p][q] += N[q];
                if (WITH_OPPOSITE) s.O[p][q] += R(2.0 * of_layer) * of_pair + N[q];
                if (NTK) s.A[p][q] += R(factor * of_layer) * of_pair;
            }
        }
    }

    // ------------------------------------------------------------------ layers

    // Half the squared distance of the input's unit vectors, or of their opposites.
    FORMULA void half_squares(int p, R sign, R (&sum)[LANES]) const
    {
        UNROLL for (int q = 0; q < LANES; q++) sum[q] = 0;
        for (int begin = 0; begin < job.channels; begin += TERMS) {
            R part[LANES];
            UNROLL for (int q = 0; q < LANES; q++) part[q] = 0;
            for (int c = begin; c < job.channels && c < begin + TERMS; c++)
                differ(*left(c, p), right(c, p), part, sign);
            UNROLL for (int q = 0; q < LANES; q++) sum[q] += part[q];
        }
        UNROLL for (int q = 0; q < LANES; q++) sum[q] *= R(0.5);
    }
    // U, U+ and A of the input's pixels.
    FORMULA void enter()
    {
        const int64 C = job.channels, root = job.n_input ? job.operations[job.n_input - 1].row : C;
        OVER_PIXELS
        {
            R w[LANES], v[LANES];
            half_squares(p, R(-1), w);
            bool opposed = false;
            UNROLL for (int q = 0; q < LANES; q++) opposed =
                opposed || w[q] > R(1.9);  // 2 - w has lost its digits
            if (opposed) half_squares(p, R(1), v);
            UNROLL for (int q = 0; q < LANES; q++)
            {
                const R g = product(C, p, q);
                state.U[p][q] = g * w[q], state.O[p][q] = g * (w[q] > R(1.9) ? v[q] : R(2) - w[q]),
                state.A[p][q] = 0;
            }
        }
        windows<true>(0, job.n_input, state);
        UNROLL for (int m = 0; m < SUMS_OF; m++) F[m] = A[m] = linear[m] = 0;
        OVER_PIXELS UNROLL for (int q = 0; q < LANES; q++)
        {
            const R g = product(root, p, q), U = state.U[p][q], O = state.O[p][q],
                    F0 = U < O ? g - U : O - g;
            state.A[p][q] = R(job.initial) * F0;
            if (POINTS) apart.linear[p][q] = F0, apart.F[p][q] = apart.A[p][q] = 0;
            if (!ALL && mine(p)) linear[pair_of(q)] += double(F0);
        }
    }

    // From pre-activations to K and M and the branch's deficits, which take their place; K and M
    // enter the sums.
    template <bool WITH_OPPOSITE>
    FORMULA void activate(const Layer &l, State &s)
    {
        R K_sum[SUMS_OF], M_sum[SUMS_OF];
        int count = 0;
        UNROLL for (int m = 0; m < SUMS_OF; m++) K_sum[m] = M_sum[m] = 0;
        OVER_PIXELS
        {
            if (!mine(p)) continue;
            count++;
            const R a = *left(l.root, p), over_a = *left(l.inverse, p);
            const Pack b = lanes_of(right(l.root, p)), over_b = lanes_of(right(l.inverse, p));
            UNROLL for (int q = 0; q < LANES; q++)
            {
                const R inverse = over_a * over_b[q], g = a * b[q];
                const R w = smaller(s.U[p][q] * inverse, R(2)),
                        v = WITH_OPPOSITE ? smaller(s.O[p][q] * inverse, R(2)) : R(2) - w;
                const Dual<R> relu = dual(w, v);
                R less = relu.less, more = R(2) - less, M = 0;
                if (lambda != 0)
                    less = fused(lambda, w - less, less), more = fused(lambda, v - more, more);
                const R lacking = g * less, K = g - lacking;
                s.U[p][q] = lacking;
                if (OPPOSITE) s.O[p][q] = g * more;
                if (NTK) {
                    R inner = s.A[p][q];
                    if (c != 0) inner = fused(c, g * correlation(w, v), inner);
                    M = times_slope(relu.k0, w, v, inner);
                    if (lambda != 0) M = fused(lambda, inner - M, M);
                    s.A[p][q] = M = fused(both, K, M);
                }
                if (!POINTS && q < valid) K_sum[pair_of(q)] += K, M_sum[pair_of(q)] += M;
            }
        }
        if (POINTS) return;
        if (ALL) count *= valid;
        UNROLL for (int m = 0; m < SUMS_OF; m++)
        {
            const double more =
                l.inner_bias >= 0 ? count * l.outer_product * double(biases[m]) : 0.0;
            F[m] = fma(job.share, double(K_sum[m]) + more, job.keep * F[m]);
            A[m] =
                fma(job.share, double(M_sum[m]) + job.outer_plus_readout * more, job.keep * A[m]);
        }
    }
    // Operation a branch with the features that pass the layer.
    FORMULA void merge_features(const Layer &l, const State &branch)
    {
        if (l.skip < 0) {
            state = branch;
            return;
        }
        // Their mean, from the heavier one on: it is exact where both are equal. Without a skip
        // connection, the share alone.
        const bool turned = l.keep < l.share;
        const R whole = R(l.keep != 0 ? 1.0 : l.share), lighter = R(turned ? l.keep : l.share),
                kept = R(l.kept * job.initial);
        auto past = [&](R passing, R branch, R more) {
            const R heavy = turned ? branch : passing, light = turned ? passing : branch;
            return fused(whole, heavy, fused(lighter, light - heavy, more));
        };
        const int64 root = l.outer_bias >= 0 ? l.outer_bias
                           : l.n_outer       ? job.operations[l.outer + l.n_outer - 1].row
                                             : l.root;
        OVER_PIXELS
        {
            R N[LANES];
            distance(l.skip, 2, p, N);
            UNROLL for (int q = 0; q < LANES; q++)
            {
                state.U[p][q] = past(state.U[p][q], branch.U[p][q], N[q]);
                if (OPPOSITE) state.O[p][q] = past(state.O[p][q], branch.O[p][q], N[q]);
                if (POINTS)
                    apart.F[p][q] = past(apart.F[p][q], product(root, p, q) - branch.U[p][q], R(0));
                if (!NTK) continue;
                R &passing = POINTS ? apart.A[p][q] : state.A[p][q];
                passing = past(passing, branch.A[p][q], R(0));
                if (POINTS) state.A[p][q] = fused(kept, apart.linear[p][q], passing);
            }
        }
    }
    // From pre-activations to the next layer's: through two filters of 3 and the skip connection,
    // one merge of five taps with weights 1 2 3 2 1. The pre-activations of layer 1, the input,
    // pass the filter of layer 2 too.
    FORMULA void join(const Layer &l, const State &branch, bool first)
    {
        const R share = R(l.share), keep = R(l.keep);
        State kept = state;
        if (first) {
            show<false>(state, true);
            OVER_PIXELS
            {
                if (!mine(p)) continue;
                UNROLL for (int side = -1; side <= 1; side += 2)
                {
                    add(0, pixel(p) + side, 1, kept.U[p]);
                    if (NTK) add(1, pixel(p) + side, 1, kept.A[p]);
                }
            }
        }
        show<false>(branch, true);
        OVER_PIXELS
        {
            if (!mine(p)) continue;
            R N[LANES], U[LANES], M[LANES];
            UNROLL for (int q = 0; q < LANES; q++) U[q] = 3 * branch.U[p][q],
                                                   M[q] = NTK ? 3 * branch.A[p][q] : 0;
            UNROLL for (int tap = -2; tap <= 2; tap++)
            {
                if (tap == 0) continue;
                const R weight = R(tap < 0 ? 3 + tap : 3 - tap);
                add(0, pixel(p) + tap, weight, U);
                if (NTK) add(1, pixel(p) + tap, weight, M);
            }
            distance(l.joined, 5, p, N);
            UNROLL for (int q = 0; q < LANES; q++)
            {
                state.U[p][q] = fused(share, U[q], fused(keep, kept.U[p][q], N[q]));
                if (NTK) state.A[p][q] = fused(share, M[q], keep * kept.A[p][q]);
            }
        }
    }
    template <bool WITH_OPPOSITE>
    FORMULA void layer(const Layer &l, bool first, bool passes_on)
    {
        State branch = state;
        windows<WITH_OPPOSITE>(l.inner, l.n_inner, branch);
        if (l.enters) state = branch;
        bias<WITH_OPPOSITE>(l.inner_bias, l.inner_product, job.readout, branch);
        activate<WITH_OPPOSITE>(l, branch);
        if (l.joined >= 0) {
            join(l, branch, first);
            return;
        }
        if (!passes_on) return;
        windows<OPPOSITE>(l.outer, l.n_outer, branch);
        bias<OPPOSITE>(l.outer_bias, l.outer_product, job.outer_plus_readout, branch);
        merge_features(l, branch);
    }
    // Take the row through all layers. Call report(layer) at the depths asked for.
    template <class Report>
    FORMULA void run(Report report)
    {
        enter();
        for (int number = 1; number <= job.depth; number++) {
            const Layer &l = job.layers[number - 1];
            const bool passes_on = POINTS || number < job.depth;
            if (number == 1)
                layer<true>(l, true, passes_on);
            else
                layer<OPPOSITE>(l, false, passes_on);
            if (l.report >= 0) report(l);
        }
    }

    // ------------------------------------------------------------------ results

    // Add up the sums of the team's threads. Return the team's: of a pair at pair_of(q) * threads,
    // the GPK's first.
    FORMULA double *totals(double kept) const
    {
        double *total = (double *)memory;
        __syncthreads();
        UNROLL for (int m = 0; m < SUMS_OF; m++)
        {
            total[m * threads + t] = fma(kept, linear[m], F[m]);
            total[(SUMS_OF + m) * threads + t] = fma(kept * job.initial, linear[m], A[m]);
        }
        int half = 1;
        while (2 * half < threads) half *= 2;
        for (; half > 0; half /= 2) {
            __syncthreads();
            if (t < half && t + half < threads)
                UNROLL for (int m = 0; m < 2 * SUMS_OF; m++) total[m * threads + t] +=
                    total[m * threads + t + half];
        }
        __syncthreads();
        return total;
    }
    FORMULA int64 numbers() const
    {
        return job.cases * job.columns *
               (job.head == PIXELS   ? int64(n) * n
                : job.head == SHARES ? n
                                     : 1);
    }
    FORMULA int64 case_at(int64 i, int64 k) const
    {
        return (launch.first_row + i) * job.columns + (job.paired ? 0 : launch.first_column + k);
    }
    // The place of the pair on the other side of the diagonal, if both places are written; else -1.
    FORMULA int64 mirrored(int64 i, int64 k) const
    {
        const int64 row = launch.first_row + i, column = launch.first_column + k;
        return job.symmetric && column != row ? column * job.columns + row : -1;
    }
    FORMULA bool above(int64 i, int64 k) const
    {
        return !job.symmetric || launch.first_column + k >= launch.first_row + i;
    }
    // Write results of a slot, which begins at a place, at one of its numbers and, unless that is
    // -1, at another.
    FORMULA void write(int64 slot, int64 at, int64 again, double gpk, double ntk) const
    {
        UNROLL for (int side = 0; side < 2; side++)
        {
            const int64 to = side == 0 ? at : again;
            if (job.gpk && to >= 0) job.gpk[slot + to] = gpk;
            if (job.ntk && to >= 0) job.ntk[slot + to] = ntk;
        }
    }
    FORMULA void add_to(int64 at, double gpk, double ntk) const
    {
        if (job.gpk) job.gpk[at] += gpk;
        if (job.ntk) job.ntk[at] += ntk;
    }
    // Both kernels at a pixel pair, with F0 or without.
    FORMULA void kernels(const Layer &l, int p, int q, bool with_linear, double &gpk,
                         double &ntk) const
    {
        gpk = l.skip < 0    ? product(l.features, p, q) - state.U[p][q]
              : with_linear ? fused(R(l.kept), apart.linear[p][q], apart.F[p][q])
                            : apart.F[p][q];
        ntk = !NTK ? 0.0 : l.skip < 0 || with_linear ? state.A[p][q] : apart.A[p][q];
    }
    // The mean of F0 over the row's pixel pairs, times their number: products of means, which may
    // be 0.
    FORMULA double linear_sum(const Side &a, int64 i, const Side &b, int64 k, int pixel_of) const
    {
        double sum = 0;
        for (int64 c = 0; c < job.channels; c++)
            sum += (pixel_of < 0 ? a.means[i * job.channels + c]
                                 : a.parts[(i * job.channels + c) * a.longest + pixel_of]) *
                   b.means[k * job.channels + c];
        return sum * double(n) * (pixel_of < 0 ? double(n) : 1.0);
    }

    // All pixel pairs of one pair of signals. The teams of all its blocks share the offsets.
    FORMULA void all_pairs()
    {
        const int64 unit = blockIdx.x % launch.units, pair = blockIdx.x / launch.units;
        const int64 wide = job.paired ? 1 : job.last_right - job.first_right;
        const int64 i = job.first_left + pair / wide,
                    k = job.paired ? i : job.first_right + pair % wide;
        if (!above(i, k)) return;
        // The order of sums belongs to the pair, in whatever order its signals come.
        const R *const of_i = (const R *)job.left.rows + job.left.begin[i], *const of_k =
                                                                                (const R *)
                                                                                    job.right.rows +
                                                                                job.right.begin[k];
        x_stride = z_stride = lines * (2 * width + LANES);
        const bool turned = !POINTS && comes_before(job.right.key[k], of_k, job.left.key[i], of_i,
                                                    job.n_rows * x_stride);
        const Side &a = turned ? job.right : job.left, &b = turned ? job.left : job.right;
        const int64 s = turned ? k : i, u = turned ? i : k, at = case_at(i, k),
                    again = mirrored(i, k);
        x = turned ? of_k : of_i, z = turned ? of_i : of_k;
        const double of_biases = a.bias[s] * b.bias[u];
        biases[0] = R(of_biases);
        const int per_line = (width + LANES - 1) / LANES, groups = lines * per_line,
                  step = int(launch.units * launch.teams);
        for (int first = int(unit * launch.teams); first < groups; first += step) {
            const bool active = first + team < groups;
            const int group = active ? first + team : groups - 1, shift = group / per_line,
                      offset = group % per_line * LANES;
            valid = !active ? 0 : width - offset < LANES ? width - offset : LANES;
            place(shift, offset);
            run([&](const Layer &l) {
                const int64 slot = ((POINTS ? 0 : unit * launch.slots) + l.report) * numbers();
                if (!POINTS) {
                    const double *total = totals(0.0);
                    if (threadIdx.x == 0)
                        for (int64 mate = 0; mate < launch.teams;
                             mate++, total += launch.row_bytes / 8)
                            add_to(slot + at, total[0], total[threads]);
                    return;
                }
                OVER_PIXELS
                {
                    double gpk, ntk, gpk_sum = 0, ntk_sum = 0;
                    const int j = pixel(p), y = j / width, column = j % width;
                    if (!mine(p)) continue;
                    UNROLL for (int q = 0; q < LANES; q++)
                    {
                        if (q >= valid) continue;
                        kernels(l, p, q, job.head == PIXELS, gpk, ntk);
                        gpk_sum += gpk, ntk_sum += ntk;
                        const int64 other =
                            (y + shift) % lines * width + (column + offset + q) % width;
                        if (job.head == PIXELS)
                            write(slot, (at * n + j) * n + other,
                                  again < 0 ? -1 : (again * n + other) * n + j, gpk, ntk);
                    }
                    if (job.head == SHARES) add_to(slot + at * n + j, gpk_sum, ntk_sum);
                }
            });
        }
        if (job.head == PIXELS || (!POINTS && threadIdx.x != 0)) return;
        const double count = double(n) * double(n);
        for (int number = 1; number <= job.depth; number++) {
            const Layer &l = job.layers[number - 1];
            if (l.report < 0) continue;
            OVER_PIXELS
            {
                if (POINTS ? !mine(p) : p > 0) continue;
                const double sum =
                    unit == 0 ? l.kept * linear_sum(a, s, b, u, POINTS ? pixel(p) : -1) : 0.0;
                const int64 slot = (unit * launch.slots + l.report) * numbers(),
                            to = POINTS ? at * n + pixel(p) : at;
                const double gpk = job.gpk ? (job.gpk[slot + to] + sum) / count : 0.0;
                const double ntk = job.ntk ? (job.ntk[slot + to] + job.initial * sum) / count : 0.0;
                write(slot, to, POINTS ? -1 : again, gpk, ntk);
            }
        }
    }

    // The pixel pairs (j, j) of LANES pairs of signals.
    FORMULA void same_pixels()
    {
        const int64 first_block = job.first_right / LANES,
                    wide = job.paired ? 1 : (job.last_right + LANES - 1) / LANES - first_block;
        const int64 item = blockIdx.x * launch.teams + team, high = job.last_left - job.first_left;
        const bool inside = item < high * wide;
        const int64 i = inside ? job.first_left + item / wide : job.first_left,
                    block = job.paired ? i / LANES : first_block + item % wide;
        auto counts = [&](int q) {
            const int64 k = block * LANES + q;
            return inside && k >= job.first_right && k < job.last_right && above(i, k) &&
                   (!job.paired || k == i);
        };
        bool any = false;
        for (int q = 0; q < LANES; q++) any = any || counts(q);
        if (!__syncthreads_or(any)) return;
        x = (const R *)job.left.rows + job.left.begin[i],
        z = (const R *)job.right.rows + job.right.begin[block];
        x_stride = n, z_stride = n * LANES;
        for (int q = 0; q < LANES; q++)
            biases[pair_of(q)] =
                counts(q) ? R(job.left.bias[i] * job.right.bias[block * LANES + q]) : R(0);
        valid = LANES;
        place(0, 0);
        run([&](const Layer &l) {
            const int64 slot = l.report * numbers();
            const double *total = POINTS ? nullptr : totals(l.kept);
            UNROLL for (int q = 0; q < LANES; q++)
            {
                if (!counts(q)) continue;
                const int64 k = block * LANES + q, at = case_at(i, k), again = mirrored(i, k);
                double gpk, ntk;
                if (!POINTS) {
                    if (t == 0)
                        write(slot, at, again, total[pair_of(q) * threads] / n,
                              total[(SUMS_OF + pair_of(q)) * threads] / n);
                    continue;
                }
                OVER_PIXELS
                {
                    if (!mine(p)) continue;
                    kernels(l, p, q, true, gpk, ntk);
                    if (job.head == SHARES)
                        write(slot, at * n + pixel(p), -1, gpk / n, ntk / n);
                    else if (pixel(p) == 0)
                        write(slot, at, again, gpk, ntk);
                }
            }
        });
    }
};

template <class R, int LANES, int OWN, bool ALL, bool OPPOSITE, bool NTK, bool POINTS>
__global__ void __launch_bounds__(512) rows(const __grid_constant__ Launch launch)
{
    extern __shared__ __align__(16) double memory[];
    Rows<R, LANES, OWN, ALL, OPPOSITE, NTK, POINTS> rows(launch, (char *)memory);
    if constexpr (ALL)
        rows.all_pairs();
    else
        rows.same_pixels();
}
