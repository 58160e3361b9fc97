// The kernel `short_rows`: the state of a row in registers, one segment for each thread.
//
// A team of threads of one warp has a row. Halos travel between its threads by shuffles. The row
// goes through all layers and is summed up; then the team takes its next row.

#include "heads.h"

// A thread's place in its team. A warp has several teams of `segments` threads; some threads may
// be left over.
struct Team {
    int segment, number, previous, next;  // previous, next: lanes of the warp
    bool whole;                           // this thread is not left over

    __device__ __forceinline__ explicit Team(int segments)
    {
        const int inside = threadIdx.x % 32, of_warp = inside / segments, teams = 32 / segments;
        whole = of_warp < teams;
        const int first = of_warp * segments, last = whole ? first + segments - 1 : 31;
        segment = inside - first;
        number = threadIdx.x / 32 * teams + of_warp;
        previous = segment == 0 ? last : inside - 1;
        next = inside == last ? first : inside + 1;
    }
};

// Sums over windows of Q pixels; halos come from the neighbouring threads.
template <bool EVEN, int Q, int P, class real>
__device__ __forceinline__ void team_sums(
    const Team &team, bool short_segment, const real (&own)[P], real (&out)[P])
{
    constexpr int half = Q / 2;
    real before[Q], after[Q], wide[P + Q - 1];
#pragma unroll
    for (int k = 0; k < half; ++k) {
        before[k]
            = __shfl_sync(~0u, to_next<EVEN>(own, half, k, short_segment), team.previous);
        after[k] = __shfl_sync(~0u, to_previous(own, k), team.next);
    }
    between<EVEN, Q>(before, own, after, short_segment, wide);
    sums<Q>(wide, out);
}

// Add the branch of a layer to the state: D, A, F ← skip_scale · state + branch_scale · box(branch).
template <class Net, bool EVEN, int P, class real>
__device__ __forceinline__ void add_branch(
    const Team &team, bool short_segment, const Layer<real> &constants,
    const Branches<P, real> &branches, State<P, real> &state)
{
    const real factor = constants.branch_scale;
    scale(state, constants.skip_scale);
    real added[P];
    team_sums<EVEN, Net::Q2>(team, short_segment, branches.branch_distance, added);
    add(state.distance, factor, added);
    if (Net::NTK) {
        team_sums<EVEN, Net::Q2>(team, short_segment, branches.tangent_branch, added);
        add(state.tangent, factor, added);
    }
    if (Net::GPK && Net::SUMMED)
        add(state.features, factor, branches.K);
    if (Net::GPK && !Net::SUMMED) {
        team_sums<EVEN, Net::Q2>(team, short_segment, branches.K, added);
        add(state.features, factor, added);
    }
}

// F⁰ or box(F⁰) of the pixels of all threads, in shared memory: it is read at most once a layer.
// Threads next to each other have chunks of 16 bytes next to each other.
template <int P, int THREADS, class real> struct LinearPart {
    static constexpr int LONG = 16 / sizeof(real), CHUNKS = (P + LONG - 1) / LONG;
    struct alignas(16) Chunk {
        real values[LONG];
    };
    Chunk chunks[CHUNKS][THREADS];

    __device__ __forceinline__ void put(const real (&values)[P])
    {
#pragma unroll
        for (int k = 0; k < CHUNKS; ++k) {
            Chunk chunk;
#pragma unroll
            for (int i = 0; i < LONG; ++i)
                chunk.values[i] = k * LONG + i < P ? values[k * LONG + i < P ? k * LONG + i : 0] : 0;
            chunks[k][threadIdx.x] = chunk;
        }
    }
    __device__ __forceinline__ void add_to(real (&values)[P], real factor) const
    {
#pragma unroll
        for (int k = 0; k < CHUNKS; ++k) {
            const Chunk chunk = chunks[k][threadIdx.x];
#pragma unroll
            for (int i = 0; i < LONG; ++i)
                if (k * LONG + i < P)
                    values[k * LONG + i] = fused(factor, chunk.values[i], values[k * LONG + i]);
        }
    }
};

// Take rows through all layers. EVEN: no segment is short.
template <class Net, int SEGMENTS, bool EVEN, int THREADS, class real>
__device__ __forceinline__ void through_registers(const Job<real> &job)
{
    constexpr int P = Net::P;
    static_assert(Net::Q1 / 2 <= P && Net::Q2 / 2 <= P, "halos come from no further away");
    const Team team(SEGMENTS);
    const int segment = team.segment, number = team.number;
    const bool short_segment = !EVEN && Segments<P>{SEGMENTS, job.d}.is_short(segment);
    CasePair cases = case_pair_of(job, number / job.teams_per_pair);
    cases.wanted = cases.wanted && team.whole;
    if (!__any_sync(~0u, cases.wanted))
        return;

    // Each thread's sums, (kind, grid), and its doubt. They are used rarely, so not in registers.
    __shared__ double sum[2 * MOST_GRIDS][THREADS];
    __shared__ double doubt[THREADS];
    for (int part = 0; part < 2 * MOST_GRIDS; ++part)
        sum[part][threadIdx.x] = 0;
    doubt[threadIdx.x] = 0;
    __shared__ LinearPart<P, THREADS, real> linear;
    __shared__ LinearPart<P, Net::NTK ? THREADS : 1, real> linear_box;
    const int teams = job.teams_per_pair * job.blocks_per_pair;
    const int first = part_of_pair(job) * job.teams_per_pair + number % job.teams_per_pair;
    const int rounds = (job.offsets + teams - 1) / teams;
    for (int round = 0; round < rounds; ++round) {
        const int asked = first + round * teams;
        const bool valid = cases.wanted && asked < job.offsets;
        const int offset = job.first_offset + (valid ? asked : 0);  // without work: the first again
        SegmentTables<real> tables = segment_tables<P>(job, cases, segment, offset);
        tables.segments = SEGMENTS;
        tables.left_layer = P * SEGMENTS;
        tables.right_layer = 2 * P * SEGMENTS;
        State<P, real> state;
        Branches<P, real> branches;
        real input[P];
        first_layer<Net>(job, tables, state, branches, input);
        linear.put(input);
        if (Net::NTK && job.linear_box) {
            real boxes[P];
            team_sums<EVEN, Net::Q1>(team, short_segment, input, boxes);
            linear_box.put(boxes);
        }
        for (int layer = 1;; ++layer) {
            add_branch<Net, EVEN>(team, short_segment, job.layers[layer], branches, state);

            const int slot = job.layers[layer].slot;
            if (slot >= 0) {
#pragma unroll
                for (int kind = 0; kind < 2; ++kind) {
                    if (!(kind == 0 ? Net::GPK : Net::NTK))
                        continue;
                    real values[P];
                    copy(kind == 0 ? state.features : state.tangent, values);
                    const real factor = linear_factor(job.layers[layer], kind);
                    if (factor != 0)
                        linear.add_to(values, factor);
                    const Result<real> to = result_of<Net>(job, cases, kind, slot);
                    double *const own = &sum[MOST_GRIDS * kind][threadIdx.x];
                    if (valid)
                        write_or_sum(
                            job, to, values, segment, offset, short_segment, own, THREADS);
                    // Sums of one result stay until the last row; sums of several results cannot.
                    if (job.head == SUM && (job.n_slots > 1 || round + 1 == rounds)) {
                        for (int k = 0; k < job.grids; ++k) {
                            const double whole = over_team(own[k * THREADS], segment, SEGMENTS);
                            own[k * THREADS] = 0;
                            if (cases.wanted && segment == 0)
                                atomicAdd(to.at + k * to.size, whole);
                        }
                    }
                }
            }
            if (layer == job.depth)
                break;

            tables.skip(1);
            real distance[P], tangent[P];
            team_sums<EVEN, Net::Q1>(team, short_segment, state.distance, distance);
            if (Net::NTK)
                team_sums<EVEN, Net::Q1>(team, short_segment, state.tangent, tangent);
            if (Net::NTK && job.linear_box)
                linear_box.add_to(tangent, job.layers[layer + 1].linear_scale);
            next_layer<Net>(
                job, tables, layer + 1, segment, short_segment, valid, distance, tangent, branches,
                doubt[threadIdx.x]);
        }
    }
    add_doubt(job, cases, doubt[threadIdx.x]);
}

// Blocks of a multiprocessor that the compiler keeps registers for: 12 warps. Segments of 16 pixels
// and more have 8, as on an H200 at 16 either takes as long; longer filters would have spills.
template <class real, int P, int Q1, int Q2, int THREADS>
constexpr int BLOCKS
    = sizeof(real) == 4 && Q1 < 9 && Q2 < 9 ? (P < 16 ? 12 : 8) * 32 / THREADS : 1;

template <class real, int P, int Q1, int Q2, bool GPK, bool NTK, bool SUMMED, bool INNER_DIFFERS,
    int SEGMENTS, bool EVEN, int THREADS>
__global__ void __launch_bounds__(THREADS, BLOCKS<real, P, Q1, Q2, THREADS>)
    short_rows(const Job<real> job)
{
    through_registers<Network<real, P, Q1, Q2, GPK, NTK, SUMMED, INNER_DIFFERS>, SEGMENTS, EVEN,
        THREADS>(job);
}
