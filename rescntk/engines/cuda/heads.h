// Results of a segment's values at a depth that was asked for. Heads want one pixel pair, every
// pixel pair, or a sum over pixel pairs. Sums do not depend on their order (exact_sum.py).

#include "layers.h"

// Where a team's results go, and the grids that round terms for an exact sum.
template <class real> struct Result {
    double *at;
    long long size;  // of all results: the distance from one grid's sums to the next grid's
    Grids<real> grids;
};

template <class Net, class real>
__device__ __forceinline__ Result<real> result_of(
    const Job<real> &job, const CasePair &cases, int kind, int slot)
{
    const long long rows = job.paired ? 1 : job.rows, row = job.paired ? 0 : cases.row;
    const long long number = (kind == 1 && Net::GPK ? job.n_slots : 0) + slot;
    const long long pixels = job.head == EVERY_PAIR ? (long long)job.d * job.d : 1;
    Result<real> result;
    result.at = job.results + (number * rows + row) * job.columns * pixels + cases.column * pixels;
    result.size = (long long)(Net::GPK + Net::NTK) * job.n_slots * rows * job.columns;
    if (job.head == SUM && cases.wanted) {
        const long long known = (long long)kind * job.n_slots + slot;
        result.grids = grids<real>(
            job.left.bounds[known * job.left.cases + cases.row]
                * job.right.bounds[known * job.right.cases + cases.column],
            job.headroom);
    }
    return result;
}

// Write a segment's values of one depth to the results, or add them to `sum`: their part on grid k
// at `sum[k * stride]`.
template <int P, class real>
__device__ __forceinline__ void write_or_sum(
    const Job<real> &job, const Result<real> &result, const real (&values)[P], int segment,
    int offset, bool short_segment, double *sum, int stride)
{
    if (job.head == FIRST_PAIR) {
        if (segment == 0)
            *result.at = values[0];
        return;
    }
    if (job.head == SUM) {
        real terms[P];
        copy(values, terms);
        if (short_segment)
            terms[P - 1] = 0;
        add_on_grids(result.grids, terms, job.grids, sum, stride);
        return;
    }
    const int first = segments_of<P>(job).begin(segment);
#pragma unroll
    for (int j = 0; j < P; ++j) {
        const int pixel = first + j, to = pixel + offset;
        if (j + 1 < P || !short_segment)
            result.at[(long long)pixel * job.d + (to < job.d ? to : to - job.d)] = values[j];
    }
}

// Add a sum of E to the doubt about a pair of cases.
template <class real>
__device__ __forceinline__ void add_doubt(
    const Job<real> &job, const CasePair &cases, double doubt)
{
    if (cases.wanted && doubt > 0)
        atomicAdd(job.doubt + (job.paired ? 0 : cases.row * job.columns) + cases.column, doubt);
}

// The sum over a team's threads of the warp, in the first of them.
__device__ __forceinline__ double over_team(double value, int thread, int threads)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const double other = __shfl_down_sync(~0u, value, step);
        value += thread + step < threads ? other : 0.0;
    }
    return value;
}
