// The kernel `long_rows`: the state of a row in shared memory, for rows and filters too long for
// registers, and for dilated filters.
//
// One pair in a block: the block owns the row, and each thread has every THREADS-th segment, of
// any number. Several pairs TOGETHER in a block: each pair has a team of threads, one for each
// segment of its row, and a part of the shared memory.

#include "heads.h"

// The rings of one row in shared memory: d numbers each. A ring that a network does not need is
// absent. `linear_box` is there for `Job::linear_box`: it has box(F⁰), the same for all layers; with
// dilated filters F⁰.
template <class Net, class real> struct Rings {
    static constexpr int COUNT = 2 + 2 * Net::NTK + (Net::SUMMED ? 1 : 2) * Net::GPK;
    real *distance, *branch_distance, *tangent, *tangent_branch, *features, *K, *linear_box;
    Segments<Net::P> segments;
    int d;

    __device__ __forceinline__ Rings(real *memory, Segments<Net::P> segments)
        : segments(segments), d(segments.d)
    {
        distance = memory;
        branch_distance = distance + d;
        real *const rest = branch_distance + d;
        tangent = Net::NTK ? rest : nullptr;
        tangent_branch = Net::NTK ? rest + d : nullptr;
        features = Net::GPK ? rest + (Net::NTK ? 2 * d : 0) : nullptr;
        K = Net::GPK && !Net::SUMMED ? features + d : nullptr;
        linear_box = memory + COUNT * d;
    }

    // Read a segment's pixels from a ring.
    template <int P>
    __device__ __forceinline__ void get(const real *ring, int segment, real (&values)[P]) const
    {
        const real *const own = ring + segments.begin(segment);
        const bool short_segment = segments.is_short(segment);
#pragma unroll
        for (int j = 0; j < P; ++j)
            values[j] = j + 1 == P && short_segment ? real(0) : own[j];
    }

    // Write a segment's pixels to a ring.
    template <int P>
    __device__ __forceinline__ void put(real *ring, int segment, const real (&values)[P]) const
    {
        real *const own = ring + segments.begin(segment);
        const bool short_segment = segments.is_short(segment);
#pragma unroll
        for (int j = 0; j < P; ++j)
            if (j + 1 < P || !short_segment)
                own[j] = values[j];
    }

    // Write a segment's branches. F, where it is not filtered, takes its branch at once.
    template <int P>
    __device__ __forceinline__ void put_branches(
        int segment, State<P, real> &state, const Branches<P, real> &branches,
        const Layer<real> &constants) const
    {
        put(branch_distance, segment, branches.branch_distance);
        if (Net::NTK)
            put(tangent_branch, segment, branches.tangent_branch);
        if (Net::GPK && Net::SUMMED) {
#pragma unroll
            for (int j = 0; j < P; ++j)
                state.features[j] *= constants.skip_scale;
            add(state.features, constants.branch_scale, branches.K);
            put(features, segment, state.features);
        }
        if (Net::GPK && !Net::SUMMED)
            put(K, segment, branches.K);
    }

    // state ← skip_scale · state + branch_scale · box(branch), for a segment's pixels.
    template <int P>
    __device__ __forceinline__ void add_branch(
        real *state, const real *branch, int segment, int outer, int step,
        real skip_scale, real branch_scale) const
    {
        real values[P], added[P];
        get(state, segment, values);
        ring_sums<Net::Q2, Net::DILATED>(
            branch, d, outer, step, segments.begin(segment), added);
#pragma unroll
        for (int j = 0; j < P; ++j)
            values[j] *= skip_scale;
        add(values, branch_scale, added);
        put(state, segment, values);
    }
};

template <class Net, int THREADS, bool TOGETHER, class real>
__device__ __forceinline__ void through_memory(const Job<real> &job, real *memory)
{
    constexpr int P = Net::P;
    const int d = job.d;
    const Segments<P> segments = segments_of<P>(job);
    const int team = TOGETHER ? threadIdx.x / job.segments : 0;
    const CasePair cases = case_pair_of(job, team);
    if (!__syncthreads_or(cases.wanted))
        return;
    // A team without work comes to all barriers, but has no segments.
    const int inside = threadIdx.x - team * job.segments;
    const int own = cases.wanted ? inside : job.segments;
    auto next = [](int segment) { return TOGETHER ? 0x7fffffff : segment + THREADS; };
    const bool linear_box = Net::NTK && job.linear_box;
    auto step_of = [&](int layer) { return Net::DILATED ? job.layers[layer].step : 1; };
    auto inner_sums = [&](const real *ring, int step, int first, real(&sums)[P]) {
        ring_sums<Net::Q1, Net::DILATED>(ring, d, job.inner, step, first, sums);
    };
    const Rings<Net, real> rings(
        memory + team * (Rings<Net, real>::COUNT + linear_box) * d, segments);

    // The thread's place among the threads that its team has in the warp, and their number.
    const int lane = threadIdx.x % 32, place = inside < lane ? inside : lane;
    const int to_end = job.segments - inside, in_warp = place + (to_end < 32 - lane ? to_end : 32 - lane);
    double sum[2][MOST_GRIDS] = {};  // a thread's sums, (kind, grid)
    double doubt = 0;
    for (int row = part_of_pair(job); row < job.offsets; row += job.blocks_per_pair) {
        const int offset = job.first_offset + row;
        for (int segment = own; segment < job.segments; segment = next(segment)) {
            SegmentTables<real> tables = segment_tables<P>(job, cases, segment, offset);
            State<P, real> state;
            Branches<P, real> branches;
            real linear[P];
            first_layer<Net>(job, tables, state, branches, linear);
            rings.put(rings.distance, segment, state.distance);
            if (Net::NTK)  // F⁰ for `linear_box`; layer 1 replaces it
                rings.put(rings.tangent, segment, linear);
            if (linear_box && Net::DILATED)
                rings.put(rings.linear_box, segment, linear);
            if (Net::GPK && !Net::SUMMED)
                rings.put(rings.features, segment, state.features);
            rings.put_branches(segment, state, branches, job.layers[1]);
        }
        __syncthreads();
        if (linear_box && !Net::DILATED) {
            for (int segment = own; segment < job.segments; segment = next(segment)) {
                real boxes[P];
                inner_sums(rings.tangent, 1, segments.begin(segment), boxes);
                rings.put(rings.linear_box, segment, boxes);
            }
            __syncthreads();
        }
        for (int layer = 1;; ++layer) {
            const Layer<real> constants = job.layers[layer];
            const int slot = constants.slot, step = step_of(layer);
            for (int segment = own; segment < job.segments; segment = next(segment)) {
                auto add_branch = [&](real *state, const real *branch, real skip_scale) {
                    rings.template add_branch<P>(
                        state, branch, segment, job.outer, step, skip_scale,
                        constants.branch_scale);
                };
                add_branch(rings.distance, rings.branch_distance, constants.skip_scale);
                if (Net::NTK)
                    add_branch(
                        rings.tangent, rings.tangent_branch,
                        layer > 1 ? constants.skip_scale : real(0));
                if (Net::GPK && !Net::SUMMED)
                    add_branch(rings.features, rings.K, constants.skip_scale);
                if (slot >= 0) {
                    real linear[P];
                    input_features(
                        job, segment_tables<P>(job, cases, segment, offset), constants, linear);
#pragma unroll
                    for (int kind = 0; kind < 2; ++kind) {
                        if (!(kind == 0 ? Net::GPK : Net::NTK))
                            continue;
                        real values[P];
                        rings.get(kind == 0 ? rings.features : rings.tangent, segment, values);
                        add(values, linear_factor(constants, kind), linear);
                        write_or_sum(
                            job, result_of<Net>(job, cases, kind, slot), values, segment, offset,
                            segments.is_short(segment), sum[kind], 1);
                    }
                }
            }
            const bool last = job.n_slots > 1 || row + job.blocks_per_pair >= job.offsets;
            if (slot >= 0 && job.head == SUM && last) {
#pragma unroll
                for (int kind = 0; kind < 2; ++kind) {
                    if (!(kind == 0 ? Net::GPK : Net::NTK))
                        continue;
                    const Result<real> to = result_of<Net>(job, cases, kind, slot);
#pragma unroll
                    for (int k = 0; k < MOST_GRIDS; ++k) {
                        const double whole = over_team(sum[kind][k], place, in_warp);
                        if (k < job.grids && cases.wanted && place == 0)
                            atomicAdd(to.at + k * to.size, whole);
                        sum[kind][k] = 0;
                    }
                }
            }
            __syncthreads();
            if (layer == job.depth)
                break;
            const Layer<real> after = job.layers[layer + 1];
            const int step_after = step_of(layer + 1);
            for (int segment = own; segment < job.segments; segment = next(segment)) {
                const int first = segments.begin(segment);
                SegmentTables<real> tables = segment_tables<P>(job, cases, segment, offset);
                tables.skip(layer + 1);
                real distance[P], tangent[P];
                inner_sums(rings.distance, step_after, first, distance);
                if (Net::NTK)
                    inner_sums(rings.tangent, step_after, first, tangent);
                if (linear_box) {
                    real boxes[P];
                    if (Net::DILATED)
                        inner_sums(rings.linear_box, step_after, first, boxes);
                    else
                        rings.get(rings.linear_box, segment, boxes);
                    add(tangent, after.linear_scale, boxes);
                }
                State<P, real> state;
                if (Net::GPK && Net::SUMMED)
                    rings.get(rings.features, segment, state.features);
                Branches<P, real> branches;
                next_layer<Net>(
                    job, tables, layer + 1, segment, segments.is_short(segment), true, distance,
                    tangent, branches, doubt);
                rings.put_branches(segment, state, branches, after);
            }
            __syncthreads();
        }
    }
    add_doubt(job, cases, doubt);
}

// Q1, Q2: 0 for filters of more than 15 pixels.
template <class real, int P, int Q1, int Q2, bool GPK, bool NTK, bool SUMMED, bool INNER_DIFFERS,
    int THREADS, bool TOGETHER, bool DILATED>
__global__ void __launch_bounds__(THREADS, 1) long_rows(const Job<real> job)
{
    extern __shared__ double memory[];
    through_memory<Network<real, P, Q1, Q2, GPK, NTK, SUMMED, INNER_DIFFERS, DILATED>, THREADS,
        TOGETHER>(job, (real *)memory);
}
