// What a launch computes (`Job`, the kernels' one argument), and which tables a segment reads.
//
// Only sums leave a kernel, or the pixel pairs that the caller asked for. A pixel pair reads its
// two pixels' tables once a layer. Tables lie in the order in which segments read them, so that
// neighbouring threads read neighbouring addresses. All threads of a block read the tables of the
// same few signals, which stay in the first-level cache.

#include "activations.h"
#include "windows.h"

// The compiler knows a network's filters and kinds, and whether only the sum of F over pixels is
// needed. It also knows whether exactly one of inner and readout weights is trained, and whether
// filters are dilated.
template <class Real, int PIXELS_OF_SEGMENT, int INNER, int OUTER, bool GPK_, bool NTK_,
    bool SUMMED_, bool INNER_DIFFERS_, bool DILATED_ = false>
struct Network {
    using real = Real;
    static constexpr int P = PIXELS_OF_SEGMENT, Q1 = INNER, Q2 = OUTER;
    static constexpr bool GPK = GPK_, NTK = NTK_;  // only GPK needs F
    static constexpr bool SUMMED = SUMMED_, INNER_DIFFERS = INNER_DIFFERS_, DILATED = DILATED_;
};

// ---------------------------------------------------------------- the argument of every kernel

// What a head wants of a kernel. launch_plan.py has the same numbers.
enum Head { FIRST_PAIR, SUM, EVERY_PAIR };

// Tables of some signals. Pixels lie as (case, layer, register, segment): P registers for a left
// signal; 2P for a right signal, whose rows begin at any pixel. The pixel is
// begin(segment) + register, around the ring. structs.py makes them.
template <class real> struct DeviceTables {
    const PixelRoots<real> *roots;
    const real *units;     // unit vectors: (case, feature, register, segment)
    const double *bounds;  // bounds on √kernel: (kind, result, case)
    long long cases;
};

// What a launch computes: kernels of `rows` left with `columns` right cases. In a symmetric Gram a
// pair is wanted if column + above >= row. If `paired`, row and column have the same number.
// structs.py has the same fields; a test compares sizes and offsets.
template <class real> struct Job {
    DeviceTables<real> left, right;
    const Layer<real> *layers;  // of the input, and of layers 1 ... depth
    // (grid, kind, result, row, column), one sum for each grid; for pixel pairs
    // (kind, result, row, column, d, d).
    double *results;
    double *doubt;                // (row, column): sums of E (doubt.h)
    const double *doubt_weights;  // weights of pixels in these sums; null: all are 1
    long long rows, columns, above;
    Trained<real> trained;
    real opposite;  // 1 + ρ is computed by itself where 1 − ρ exceeds this number
    int n_slots, depth, features, d, segments, inner, outer;
    int first_offset, offsets;  // the rows of a pair in this launch, and their number
    int blocks_per_pair, teams_per_pair, pairs_high, pairs_wide, blocks_wide;  // see `case_pair_of`
    int paired, headroom, grids, head;
    int linear_box;  // A_g has a part (t + r) box(F⁰) beyond layer 1
};

template <int P, class real> __device__ __forceinline__ Segments<P> segments_of(const Job<real> &job)
{
    return {job.segments, job.d};
}

template <class real> __device__ __forceinline__ real load(const real *at) { return __ldg(at); }
__device__ __forceinline__ PixelRoots<float> load(const PixelRoots<float> *at)
{
    const float2 two = __ldg((const float2 *)at);
    return {two.x, two.y};
}
__device__ __forceinline__ PixelRoots<double> load(const PixelRoots<double> *at)
{
    const double2 two = __ldg((const double2 *)at);
    return {two.x, two.y};
}

// ---------------------------------------------------------------- which pair of cases

struct CasePair {
    long long row, column;
    bool wanted;
};

// The pair of cases with this number in the block. A block has a rectangle of pairs, `pairs_high`
// rows by `pairs_wide` columns; `blocks_wide` rectangles lie side by side. A rectangle has
// `blocks_per_pair` blocks, and in each block a pair has `teams_per_pair` teams of threads. All
// teams of a pair take its offsets in turn.
template <class real>
__device__ __forceinline__ CasePair case_pair_of(const Job<real> &job, int number)
{
    const unsigned wide = job.blocks_wide, rectangle = blockIdx.x / job.blocks_per_pair;
    const int across = number / job.pairs_high, down = number % job.pairs_high;
    CasePair cases;
    cases.column = (long long)(rectangle % wide) * job.pairs_wide + across;
    cases.row = job.paired ? cases.column
                           : (long long)(rectangle / wide) * job.pairs_high + down;
    cases.wanted = across < job.pairs_wide && cases.row < job.rows && cases.column < job.columns
                   && cases.column + job.above >= cases.row;
    return cases;
}

// The number of a block among its pairs' blocks.
template <class real> __device__ __forceinline__ int part_of_pair(const Job<real> &job)
{
    return blockIdx.x % job.blocks_per_pair;
}

// ---------------------------------------------------------------- which tables

// The two pixels of a pair in one layer: g, h (activations.h) and 1/g, in the unit of window sums.
template <class real> struct PixelPair {
    real g, h, inverse_g;
};

template <class real> HD PixelPair<real> pixel_pair(PixelRoots<real> left, PixelRoots<real> right)
{
    PixelPair<real> pair;
    pair.g = left.root * right.root;
    pair.h = fused(left.root, real(0.5), -right.root);
    pair.inverse_g = left.inverse_root * right.inverse_root;
    return pair;
}

// The tables of one segment of a row: pixels j of the left signal, j + offset of the right signal.
template <class real> struct SegmentTables {
    const PixelRoots<real> *left, *right;
    const real *left_units, *right_units;
    int segments, left_layer, right_layer;  // strides

    __device__ __forceinline__ PixelPair<real> at(int j) const
    {
        return pixel_pair(load(left + j * segments), load(right + j * segments));
    }
    __device__ __forceinline__ void skip(int layers)
    {
        left += (long long)layers * left_layer;
        right += (long long)layers * right_layer;
    }
};

template <int P, class real>
__device__ __forceinline__ SegmentTables<real> segment_tables(
    const Job<real> &job, const CasePair &cases, int segment, int offset)
{
    SegmentTables<real> tables;
    tables.segments = job.segments;
    tables.left_layer = P * job.segments;
    tables.right_layer = 2 * tables.left_layer;
    const long long one = cases.wanted ? cases.row : 0, two = cases.wanted ? cases.column : 0;
    const Segments<P> segments = segments_of<P>(job);
    const int pixel = segments.begin(segment) + offset;
    const int other = pixel < job.d ? pixel : pixel - job.d;
    const int from = segments.having(other);
    const int seen = (other - segments.begin(from)) * job.segments + from;
    const long long l = one * (job.depth + 1) * tables.left_layer + segment;
    const long long r = two * (job.depth + 1) * tables.right_layer + seen;
    tables.left = job.left.roots + l;
    tables.right = job.right.roots + r;
    tables.left_units = job.left.units + one * job.features * tables.left_layer + segment;
    tables.right_units = job.right.units + two * job.features * tables.right_layer + seen;
    return tables;
}
