// The kernels of the engine "cuda": all layers of rows of pixel pairs.
//
// Lanes own contiguous pixels of a row (rows.h). It goes through all layers, is added up, and the
// next one follows; only sums leave a kernel, or what the caller asked for by itself. What a pixel
// pair needs to know of its two pixels is read from tables that lie as the lanes read them (`Side`
// below), once a layer, by neighbouring lanes from neighbouring addresses; all lanes of a block
// read the tables of the same few signals, which stay in the first-level cache.
//
// `short_rows` has the state of a row in registers, and halos travel between the lanes of a warp
// by shuffles. `long_rows`, for rows and filters too long for that, has it in shared memory.

#include "rows.h"

// What of a network is known when it is compiled: the kinds, the activation (`Activation`, which
// says as well whether F may stay without a filter), and whether inner and readout weights differ
// in being trained. Which results a head wants is said by `Head`. Both come from launches.py.
template <class Real, int PIXELS_OF_LANE, int INNER, int OUTER, bool GPK_, bool NTK_, int KIND_,
    bool CROSS_>
struct Network {
    using real = Real;
    static constexpr int P = PIXELS_OF_LANE, Q1 = INNER, Q2 = OUTER, KIND = KIND_;
    static constexpr bool GPK = GPK_, NTK = NTK_, CROSS = CROSS_;
    static constexpr bool SUMMED = KIND == RELU_SUMMED;
    static constexpr bool FEATURES = GPK || KIND == ERF;  // F is needed
};

// Tables of some signals. In the order of lanes: (case, layer, register, lane), for a left side P
// registers, for a right one 2P, so that a row may begin at any pixel; begin(lane) + register,
// around the ring, is the pixel.
template <class real> struct Side {
    const Two<real> *pixels, *extra;
    const real *units;     // (case, channel, register, lane)
    const double *bounds;  // (kind, result, case): tables.Side.bounds
    long long cases;
};

// What to compute: the kernels of `rows` left with `columns` right cases. Of a symmetric Gram the
// column of a wanted pair, plus `above`, is at least its row; on a diagonal both are the same case.
template <class real> struct Job {
    const Layer<real> *layers;  // of the input, and of layers 1 ... depth
    const int *slots;           // which result a layer is, or −1
    int n_slots, depth, channels;
    int d, lanes, inner, outer, offsets;
    int share, tall, pairs;  // of a block: see `find`
    long long rows, columns, above;
    bool diagonal;
    Trained<real> trained;
    real opposite;  // 1 + ρ is computed by itself where 1 − ρ exceeds this
    int headroom, head;
    // (kind, result, row, column), once for coarse and once for fine sums; for pixels
    // (kind, result, row, column, d, d).
    double *results;
};

__device__ __forceinline__ float load(const float *at) { return __ldg(at); }
__device__ __forceinline__ double load(const double *at) { return __ldg(at); }
__device__ __forceinline__ Two<float> load(const Two<float> *at)
{
    const float2 two = __ldg((const float2 *)at);
    return {two.x, two.y};
}
__device__ __forceinline__ Two<double> load(const Two<double> *at)
{
    const double2 two = __ldg((const double2 *)at);
    return {two.x, two.y};
}

// ---------------------------------------------------------------- which row

struct Place {
    long long row, column;
    bool wanted;
};

// The pair of cases of a team. A block has a rectangle of pairs, `tall` rows high; a pair has
// `share` teams, each with every share-th offset.
template <class real> __device__ __forceinline__ Place find(const Job<real> &job, int own)
{
    const int wide = job.pairs / job.tall;
    const long long blocks = (job.columns + wide - 1) / wide;
    Place place;
    place.column = blockIdx.x % blocks * wide + own / job.tall;
    place.row = job.diagonal ? place.column : blockIdx.x / blocks * job.tall + own % job.tall;
    place.wanted = own < job.pairs && place.row < job.rows && place.column < job.columns
                   && place.column + job.above >= place.row;
    return place;
}

// A lane's tables of one row: pixels of the left signal and, from an offset on, of the right one.
template <class real> struct Tables {
    const Two<real> *left, *right, *left_extra, *right_extra;
    const real *left_units, *right_units;
    int lanes, left_layer, right_layer;  // strides

    __device__ __forceinline__ Pair<real> at(int j) const
    {
        return pair(load(left + j * lanes), load(right + j * lanes));
    }
    __device__ __forceinline__ Two<real> extra(int j) const
    {
        const Two<real> p = load(left_extra + j * lanes), o = load(right_extra + j * lanes);
        return {p.one + o.one, p.other + o.other};
    }
    __device__ __forceinline__ void skip(int layers)
    {
        left += (long long)layers * left_layer;
        right += (long long)layers * right_layer;
        left_extra += (long long)layers * left_layer;
        right_extra += (long long)layers * right_layer;
    }
};

template <int P, class real>
__device__ __forceinline__ Tables<real> tables_of(
    const Job<real> &job, const Side<real> &left, const Side<real> &right, const Place &place,
    int lane, int offset)
{
    Tables<real> tables;
    tables.lanes = job.lanes;
    tables.left_layer = P * job.lanes;
    tables.right_layer = 2 * tables.left_layer;
    const long long one = place.wanted ? place.row : 0, two = place.wanted ? place.column : 0;
    const int pixel = begin(lane, job.lanes, job.d) + offset;
    const int other = pixel < job.d ? pixel : pixel - job.d;
    const int from = ((other + 1) * job.lanes - 1) / job.d;
    const int seen = (other - begin(from, job.lanes, job.d)) * job.lanes + from;
    const long long l = one * (job.depth + 1) * tables.left_layer + lane;
    const long long r = two * (job.depth + 1) * tables.right_layer + seen;
    tables.left = left.pixels + l;
    tables.right = right.pixels + r;
    tables.left_extra = left.extra + l;
    tables.right_extra = right.extra + r;
    tables.left_units = left.units + one * job.channels * tables.left_layer + lane;
    tables.right_units = right.units + two * job.channels * tables.right_layer + seen;
    return tables;
}

// ---------------------------------------------------------------- layers

// w = 1 − ρ of the input's pixels, from their unit vectors, and v = 1 + ρ, from these too where
// 2 − w has lost its digits.
template <int P, class real>
__device__ __forceinline__ void input_gaps(
    const Job<real> &job, const Tables<real> &tables, real (&w)[P], real (&v)[P])
{
#pragma unroll
    for (int j = 0; j < P; ++j)
        w[j] = v[j] = 0;
    const real *left = tables.left_units, *right = tables.right_units;
    for (int c = 0; c < job.channels; ++c) {
#pragma unroll
        for (int j = 0; j < P; ++j) {
            const real term = load(left + j * tables.lanes) - load(right + j * tables.lanes);
            w[j] = fused(term, term, w[j]);
        }
        left += tables.left_layer;
        right += tables.right_layer;
    }
    bool opposed = false;
#pragma unroll
    for (int j = 0; j < P; ++j) {
        w[j] *= real(0.5);
        opposed = opposed || w[j] > job.opposite;
    }
    if (opposed) {
        left = tables.left_units;
        right = tables.right_units;
        for (int c = 0; c < job.channels; ++c) {
#pragma unroll
            for (int j = 0; j < P; ++j) {
                const real term = load(left + j * tables.lanes) + load(right + j * tables.lanes);
                v[j] = fused(term, term, v[j]);
            }
            left += tables.left_layer;
            right += tables.right_layer;
        }
    }
#pragma unroll
    for (int j = 0; j < P; ++j)
        v[j] = w[j] > job.opposite ? v[j] * real(0.5) : 2 - w[j];
}

// The activation of one pixel pair. `tangent` and `covariance` are those of the pre-activations.
template <class Net, class real>
__device__ __forceinline__ Branch<real> activated(
    const Job<real> &job, const Tables<real> &tables, int layer, int j, real g, real h, real w,
    real v, real tangent, real covariance)
{
    if constexpr (Net::KIND == ERF) {
        const Layer<real> constants = job.layers[layer];
        tangent = fused(job.trained.cross, covariance, tangent);
        return erf_dual(
            real(0.5) * g, w < 2 ? w : real(2), covariance, tangent, tables.extra(j),
            constants.unit, constants.factor, job.trained.again);
    } else {
        if (Net::CROSS)
            tangent = crossed(tangent, job.trained.cross, g, w);
        return relu<Net::NTK>(g, h, w, v, tangent, job.trained.again);
    }
}

// The features that enter, and what the first layer's branch brings; its filter has size 1.
template <class Net, int P, class real>
__device__ __forceinline__ void first_layer(
    const Job<real> &job, Tables<real> &tables, State<P, real> &state, Brought<P, real> &brought)
{
    real w[P], v[P];
    input_gaps(job, tables, w, v);
    const real share = Net::SUMMED ? real(1) / job.outer : real(1);
#pragma unroll
    for (int j = 0; j < P; ++j)
        enter<Net::NTK>(
            tables.at(j), w[j], job.trained.start, share, state.distance[j], state.tangent[j],
            state.features[j]);
    tables.skip(1);
#pragma unroll
    for (int j = 0; j < P; ++j) {
        const Pair<real> both = tables.at(j);
        const Branch<real> branch = activated<Net>(
            job, tables, 1, j, both.g, both.h, w[j], v[j], state.tangent[j], state.features[j]);
        brought.gap[j] = branch.gap;
        brought.both[j] = branch.both;
        brought.source[j] = branch.source;
    }
}

// From window sums of D, A and F through a layer's activation.
template <class Net, int P, class real>
__device__ __forceinline__ void next_layer(
    const Job<real> &job, const Tables<real> &tables, int layer, real near,
    const real (&distance)[P], const real (&tangent)[P], const real (&covariance)[P],
    Brought<P, real> &brought)
{
    // A part of the pixels at a time where there are many: their numbers are in registers beside
    // the state.
    constexpr int most = 48 / sizeof(real), part = P > most ? (P + 1) / 2 : P;
#pragma unroll
    for (int first = 0; first < P; first += part) {
        real g[part], h[part], w[part];
        bool tied = false;
#pragma unroll
        for (int k = 0; k < part; ++k) {
            const int j = first + k;
            if (j >= P)
                continue;
            const Pair<real> both = tables.at(j);
            const real e = fused(-both.h, both.h, distance[j]);  // D − z
            tied = tied || perhaps_less(e, near);
            g[k] = both.g;
            h[k] = both.h;
            w[k] = e * both.inverse;
        }
        if (tied) {  // rare enough for a branch
#pragma unroll
            for (int k = 0; k < part; ++k) {
                const int at = (first + k) * tables.lanes;
                if (first + k < P)
                    w[k] = untied(
                        w[k], load(tables.left + at), load(tables.right + at), job.trained.tie);
            }
        }
#pragma unroll
        for (int k = 0; k < part; ++k) {
            const int j = first + k;
            if (j >= P)
                continue;
            const Branch<real> branch = activated<Net>(
                job, tables, layer, j, g[k], h[k], w[k], 2 - w[k], tangent[j], covariance[j]);
            brought.gap[j] = branch.gap;
            brought.both[j] = branch.both;
            brought.source[j] = branch.source;
        }
    }
}

// What a state keeps, where that is not all of it, before a branch is added.
template <int P, class real>
__device__ __forceinline__ void keep(State<P, real> &state, real part)
{
    if (part == 1)
        return;
#pragma unroll
    for (int j = 0; j < P; ++j) {
        state.distance[j] *= part;
        state.tangent[j] *= part;
        state.features[j] *= part;
    }
}

template <int P, class real>
__device__ __forceinline__ void add(real (&state)[P], real factor, const real (&added)[P])
{
#pragma unroll
    for (int j = 0; j < P; ++j)
        state[j] = fused(factor, added[j], state[j]);
}

// ---------------------------------------------------------------- heads

// The sum over a team's lanes, in its first one.
__device__ __forceinline__ double over_lanes(double value, int lane, int lanes)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const double other = __shfl_down_sync(~0u, value, step);
        value += lane + step < lanes ? other : 0.0;
    }
    return value;
}

template <class real> struct Result {
    double *at;
    long long size;  // of all results, between coarse and fine sums
    Grids grid;
};

template <class Net, class real>
__device__ __forceinline__ Result<real> result(
    const Job<real> &job, const Side<real> &left, const Side<real> &right, const Place &place,
    int kind, int slot)
{
    const long long rows = job.diagonal ? 1 : job.rows, row = job.diagonal ? 0 : place.row;
    const long long number = (kind == 1 && Net::GPK ? job.n_slots : 0) + slot;
    Result<real> result;
    result.at = job.results + (number * rows + row) * job.columns
                        * (job.head == EVERY_PAIR ? (long long)job.d * job.d : 1)
                + place.column * (job.head == EVERY_PAIR ? (long long)job.d * job.d : 1);
    result.size = (long long)(Net::GPK + Net::NTK) * job.n_slots * rows * job.columns;
    if (job.head == SUM && place.wanted) {
        const long long known = (long long)kind * job.n_slots + slot;
        result.grid = grids(
            left.bounds[known * left.cases + place.row]
                * right.bounds[known * right.cases + place.column],
            job.headroom);
    }
    return result;
}

// Hand a lane's values of one depth over: write them, or add them to `sum`.
template <int P, class real>
__device__ __forceinline__ void hand_over(
    const Job<real> &job, const Result<real> &result, const real (&values)[P], int lane,
    int offset, bool brief, double *sum, int stride)
{
    if (job.head == FIRST_PAIR) {
        if (lane == 0)
            *result.at = values[0];
        return;
    }
    const int first = begin(lane, job.lanes, job.d);
    double coarse = 0, fine = 0;
#pragma unroll
    for (int j = 0; j < P; ++j) {
        if (j + 1 == P && brief)
            continue;
        if (job.head == EVERY_PAIR) {
            const int pixel = first + j, to = pixel + offset;
            result.at[(long long)pixel * job.d + (to < job.d ? to : to - job.d)] = values[j];
            continue;
        }
        const double value = values[j];
        const double upper = (value + result.grid.coarse) - result.grid.coarse;
        coarse += upper;
        fine += ((value - upper) + result.grid.fine) - result.grid.fine;
    }
    sum[0] += coarse;
    sum[stride] += fine;
}

// ---------------------------------------------------------------- rows in registers

// A thread's place in its team, which is so many lanes of a warp; a warp has several teams, and
// some lanes may be left over.
struct Team {
    int lane, number, previous, next;
    bool whole;  // not left over

    __device__ __forceinline__ explicit Team(int lanes)
    {
        const int inside = threadIdx.x % 32, of_warp = inside / lanes, teams = 32 / lanes;
        whole = of_warp < teams;
        const int first = of_warp * lanes, last = whole ? first + lanes - 1 : 31;
        lane = inside - first;
        number = threadIdx.x / 32 * teams + of_warp;
        previous = lane == 0 ? last : inside - 1;
        next = inside == last ? first : inside + 1;
    }
};

// Sums over windows of Q pixels; halos come from the lanes next to this one.
template <bool EVEN, int Q, int P, class real>
__device__ __forceinline__ void team_sums(
    const Team &team, bool brief, const real (&own)[P], real (&out)[P])
{
    constexpr int half = Q / 2;
    real before[Q], after[Q], wide[P + Q - 1];
#pragma unroll
    for (int k = 0; k < half; ++k) {
        before[k] = __shfl_sync(~0u, to_next<EVEN>(own, half, k, brief), team.previous);
        after[k] = __shfl_sync(~0u, to_previous(own, k), team.next);
    }
    between<EVEN, Q>(before, own, after, brief, wide);
    sums<Q>(wide, out);
}

// EVEN: no lane is brief.
template <class Net, int LANES, bool EVEN, int THREADS, class real>
__device__ __forceinline__ void through_registers(
    const Job<real> &job, const Side<real> &left, const Side<real> &right)
{
    constexpr int P = Net::P;
    static_assert(Net::Q1 / 2 <= P && Net::Q2 / 2 <= P, "halos come from no further away");
    const Team team(LANES);
    const int lane = team.lane, number = team.number;
    const bool brief
        = !EVEN && begin(lane + 1, LANES, job.d) - begin(lane, LANES, job.d) < P;
    Place place = find(job, number / job.share);
    place.wanted = place.wanted && team.whole;
    if (!__any_sync(~0u, place.wanted))
        return;

    // What a lane has added up, (kind, coarse or fine): used once a row, so not in registers.
    __shared__ double sum[4][THREADS];
    for (int part = 0; part < 4; ++part)
        sum[part][threadIdx.x] = 0;
    const int rounds = (job.offsets + job.share - 1) / job.share;
    for (int round = 0; round < rounds; ++round) {
        const int asked = number % job.share + round * job.share;
        const bool valid = place.wanted && asked < job.offsets;
        const int offset = valid ? asked : 0;  // a team without work repeats some
        Tables<real> tables = tables_of<P>(job, left, right, place, lane, offset);
        tables.lanes = LANES;
        tables.left_layer = P * LANES;
        tables.right_layer = 2 * P * LANES;
        State<P, real> state;
        Brought<P, real> brought;
        first_layer<Net>(job, tables, state, brought);
        for (int layer = 1;; ++layer) {
            const Layer<real> constants = job.layers[layer];
            const real factor = Net::KIND == ERF ? real(1) : constants.factor;
            keep(state, constants.keep);
            real added[P];
            team_sums<EVEN, Net::Q2>(team, brief, brought.gap, added);
            add(state.distance, factor, added);
            if (Net::NTK) {
                team_sums<EVEN, Net::Q2>(team, brief, brought.source, added);
                add(state.tangent, factor, added);
            }
            if (Net::FEATURES && Net::SUMMED)
                add(state.features, factor, brought.both);
            if (Net::FEATURES && !Net::SUMMED) {
                team_sums<EVEN, Net::Q2>(team, brief, brought.both, added);
                add(state.features, factor, added);
            }

            const int slot = job.slots[layer];
            if (slot >= 0) {
#pragma unroll
                for (int kind = 0; kind < 2; ++kind) {
                    if (!(kind == 0 ? Net::GPK : Net::NTK))
                        continue;
                    const Result<real> to = result<Net>(job, left, right, place, kind, slot);
                    double *const own = &sum[2 * kind][threadIdx.x];
                    if (valid)
                        hand_over(
                            job, to, kind == 0 ? state.features : state.tangent, lane, offset,
                            brief, own, THREADS);
                    // One result is kept until the last row; several cannot be.
                    if (job.head == SUM && (job.n_slots > 1 || round + 1 == rounds)) {
                        const double coarse = over_lanes(own[0], lane, LANES);
                        const double fine = over_lanes(own[THREADS], lane, LANES);
                        own[0] = own[THREADS] = 0;
                        if (place.wanted && lane == 0) {
                            atomicAdd(to.at, coarse);
                            atomicAdd(to.at + to.size, fine);
                        }
                    }
                }
            }
            if (layer == job.depth)
                break;

            tables.skip(1);
            real distance[P], tangent[P], covariance[P];
            team_sums<EVEN, Net::Q1>(team, brief, state.distance, distance);
            if (Net::NTK)
                team_sums<EVEN, Net::Q1>(team, brief, state.tangent, tangent);
            if (Net::KIND == ERF)
                team_sums<EVEN, Net::Q1>(team, brief, state.features, covariance);
            next_layer<Net>(
                job, tables, layer + 1, job.layers[layer + 1].near, distance, tangent, covariance,
                brought);
        }
    }
}

// ---------------------------------------------------------------- rows in shared memory

// A block owns a row, and each thread has every THREADS-th lane, of which there may be any number;
// or, with several pairs TOGETHER in a block, each pair has a team of threads, one for each lane of
// its row, and a part of the shared memory.
template <class Net, int THREADS, bool TOGETHER, class real>
__device__ __forceinline__ void through_memory(
    const Job<real> &job, const Side<real> &left, const Side<real> &right, real *memory)
{
    constexpr int P = Net::P;
    const int d = job.d;
    const int team = TOGETHER ? threadIdx.x / job.lanes : 0;
    const Place place = find(job, team);
    if (!__syncthreads_or(place.wanted))
        return;
    // A team without work comes to all barriers, but has no lanes.
    const int own = place.wanted ? threadIdx.x - team * job.lanes : job.lanes;
    auto next = [](int lane) { return TOGETHER ? 0x7fffffff : lane + THREADS; };
    constexpr int rings = 2 + 2 * Net::NTK + (Net::SUMMED ? 1 : 2) * Net::FEATURES;
    real *const distances = memory + team * rings * d, *const gaps = distances + d;
    real *rest = gaps + d;
    real *tangents = nullptr, *sources = nullptr, *features = nullptr, *boths = nullptr;
    if (Net::NTK) {
        tangents = rest;
        sources = tangents + d;
        rest = sources + d;
    }
    if (Net::FEATURES) {
        features = rest;
        boths = Net::SUMMED ? nullptr : features + d;
    }
    // A lane's pixels, from and to shared memory.
    auto get = [&](const real *from, int lane, real(&values)[P]) {
        const int first = begin(lane, job.lanes, d), end = begin(lane + 1, job.lanes, d);
#pragma unroll
        for (int j = 0; j < P; ++j)
            values[j] = first + j < end ? from[first + j] : real(0);
    };
    auto put = [&](real *to, int lane, const real(&values)[P]) {
        const int first = begin(lane, job.lanes, d), end = begin(lane + 1, job.lanes, d);
#pragma unroll
        for (int j = 0; j < P; ++j)
            if (first + j < end)
                to[first + j] = values[j];
    };

    double sum[2][2] = {{0, 0}, {0, 0}};  // what a thread has added up, (kind, coarse or fine)
    for (int offset = 0; offset < job.offsets; ++offset) {
        auto bring = [&](int lane, State<P, real> &state, const Brought<P, real> &brought,
                         real kept, real factor) {
            put(gaps, lane, brought.gap);
            if (Net::NTK)
                put(sources, lane, brought.source);
            if (Net::FEATURES && Net::SUMMED) {
#pragma unroll
                for (int j = 0; j < P; ++j)
                    state.features[j] *= kept;
                add(state.features, factor, brought.both);
                put(features, lane, state.features);
            }
            if (Net::FEATURES && !Net::SUMMED)
                put(boths, lane, brought.both);
        };
        const real one = 1;
        for (int lane = own; lane < job.lanes; lane = next(lane)) {
            Tables<real> tables = tables_of<P>(job, left, right, place, lane, offset);
            State<P, real> state;
            Brought<P, real> brought;
            first_layer<Net>(job, tables, state, brought);
            put(distances, lane, state.distance);
            if (Net::NTK)
                put(tangents, lane, state.tangent);
            if (Net::FEATURES && !Net::SUMMED)
                put(features, lane, state.features);
            const Layer<real> constants = job.layers[1];
            bring(lane, state, brought, constants.keep, Net::KIND == ERF ? one : constants.factor);
        }
        __syncthreads();
        for (int layer = 1;; ++layer) {
            const Layer<real> constants = job.layers[layer];
            const real factor = Net::KIND == ERF ? one : constants.factor;
            const int slot = job.slots[layer];
            for (int lane = own; lane < job.lanes; lane = next(lane)) {
                const int first = begin(lane, job.lanes, d);
                auto carry = [&](real *state, const real *brought) {
                    real values[P], added[P];
                    get(state, lane, values);
                    ring_sums<Net::Q2>(brought, d, job.outer, first, added);
#pragma unroll
                    for (int j = 0; j < P; ++j)
                        values[j] *= constants.keep;
                    add(values, factor, added);
                    put(state, lane, values);
                };
                carry(distances, gaps);
                if (Net::NTK)
                    carry(tangents, sources);
                if (Net::FEATURES && !Net::SUMMED)
                    carry(features, boths);
                if (slot >= 0) {
#pragma unroll
                    for (int kind = 0; kind < 2; ++kind) {
                        if (!(kind == 0 ? Net::GPK : Net::NTK))
                            continue;
                        real values[P];
                        get(kind == 0 ? features : tangents, lane, values);
                        const bool brief = begin(lane + 1, job.lanes, d) - first < P;
                        hand_over(
                            job, result<Net>(job, left, right, place, kind, slot), values, lane,
                            offset, brief, sum[kind], 1);
                    }
                }
            }
            const bool last = job.n_slots > 1 || offset + 1 == job.offsets;
            if (slot >= 0 && job.head == SUM && last && place.wanted) {
#pragma unroll
                for (int kind = 0; kind < 2; ++kind) {
                    if (!(kind == 0 ? Net::GPK : Net::NTK))
                        continue;
                    const Result<real> to = result<Net>(job, left, right, place, kind, slot);
                    atomicAdd(to.at, sum[kind][0]);
                    atomicAdd(to.at + to.size, sum[kind][1]);
                    sum[kind][0] = sum[kind][1] = 0;
                }
            }
            __syncthreads();
            if (layer == job.depth)
                break;
            const Layer<real> after = job.layers[layer + 1];
            for (int lane = own; lane < job.lanes; lane = next(lane)) {
                const int first = begin(lane, job.lanes, d);
                Tables<real> tables = tables_of<P>(job, left, right, place, lane, offset);
                tables.skip(layer + 1);
                real distance[P], tangent[P], covariance[P];
                ring_sums<Net::Q1>(distances, d, job.inner, first, distance);
                if (Net::NTK)
                    ring_sums<Net::Q1>(tangents, d, job.inner, first, tangent);
                if (Net::KIND == ERF)
                    ring_sums<Net::Q1>(features, d, job.inner, first, covariance);
                State<P, real> state;
                if (Net::FEATURES && Net::SUMMED)
                    get(features, lane, state.features);
                Brought<P, real> brought;
                next_layer<Net>(
                    job, tables, layer + 1, after.near, distance, tangent, covariance, brought);
                bring(lane, state, brought, after.keep, Net::KIND == ERF ? one : after.factor);
            }
            __syncthreads();
        }
    }
}

// ---------------------------------------------------------------- kernels

#define PARAMETERS                                                                                 \
    const Two<real> *left, const Two<real> *left_extra, const real *left_units,                    \
        const double *left_bounds, long long left_cases, const Two<real> *right,                   \
        const Two<real> *right_extra, const real *right_units, const double *right_bounds,         \
        long long right_cases, const Layer<real> *layers, const int *slots, int n_slots,           \
        int depth, int channels, int d, int lanes, int inner, int outer, int offsets, int share,   \
        int tall, int pairs, long long rows, long long columns, long long above, int diagonal,     \
        real start, real cross, real again, real tie, real opposite, int headroom, int head,       \
        double *results

#define LEFT                                                                                       \
    Side<real> { left, left_extra, left_units, left_bounds, left_cases }
#define RIGHT                                                                                      \
    Side<real> { right, right_extra, right_units, right_bounds, right_cases }
#define JOB                                                                                        \
    Job<real>                                                                                      \
    {                                                                                              \
        layers, slots, n_slots, depth, channels, d, lanes, inner, outer, offsets, share, tall,     \
            pairs, rows, columns, above, diagonal != 0, {start, cross, again, tie}, opposite,      \
            headroom, head, results                                                                \
    }

template <class real, int P, int Q1, int Q2, bool GPK, bool NTK, int KIND, bool CROSS, int LANES,
    bool EVEN, int THREADS>
__global__ void __launch_bounds__(THREADS, 1) short_rows(PARAMETERS)
{
    through_registers<Network<real, P, Q1, Q2, GPK, NTK, KIND, CROSS>, LANES, EVEN, THREADS>(
        JOB, LEFT, RIGHT);
}

// Q1, Q2: 0 for sizes above 15.
template <class real, int P, int Q1, int Q2, bool GPK, bool NTK, int KIND, bool CROSS, int THREADS,
    bool TOGETHER>
__global__ void __launch_bounds__(THREADS, 1) long_rows(PARAMETERS)
{
    extern __shared__ double memory[];
    through_memory<Network<real, P, Q1, Q2, GPK, NTK, KIND, CROSS>, THREADS, TOGETHER>(
        JOB, LEFT, RIGHT, (real *)memory);
}
