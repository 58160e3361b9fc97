// The recursion of ReLU networks (engines/layer/recursion.py) on strips of pixel pairs.
//
//   ../compiled/formulas.h  the steps of a layer for one vector of pixel pairs (lanes.h)
//   layout.h                the vectors of a strip
//   strip.h                 a strip, with its tables, state and sums
//   activation.h            the activation of a strip
//   joined.h                merges of five taps of a strip
//   layers.h                all operations of a layer on a strip
//   results.h               results, computed from sums and states
//   loops.cpp               the loops over pairs of signals, and the functions of the library
//
// This file is compiled once for each instruction set (build.py). It does not use the run-time
// library of C++.
#include "layers.h"
#include "results.h"

namespace
{
// How a call ends. It is STOPPED if `stop` of the job becomes 1, and OTHER_VERSION if the job was
// made for other sources than these.
enum Status { DONE, STOPPED, NO_MEMORY, OTHER_VERSION };

// The pairs of signals of a job, computed one after the other, or some of them together.
template <class R, bool CARRIES_U_PLUS, bool NTK>
struct Pairs {
    using V = typename Lanes<R>::V;
    static constexpr int LANES = Lanes<R>::LANES;
    const Job &job;
    const Layers<R, CARRIES_U_PLUS, NTK> layers;
    const Results<R, NTK> results;
    Layout layout;
    Strips<R> strips;

    explicit Pairs(const Job &job) : job(job), layers(job), results(job), layout(job) {}
    Status run() { return job.all_pairs ? run_all_pairs() : run_some_offsets(); }

private:
    bool stopped() const { return __atomic_load_n(job.stop, __ATOMIC_RELAXED); }
    bool lay_out(int64 d, int64 e)
    {
        if (layout.is_of(d, e)) return true;
        return layout.lay_out(d, e) && strips.lay_out(job, layout);
    }
    Table<R> table(const Side &side, int64 signal, bool is_interleaved) const
    {
        const int64 d = side.length[signal], line_pixels = job.height ? job.line_pixels : d;
        const R *rows =
            (const R *)side.rows + side.begin[is_interleaved ? signal / job.n_interleaved : signal];
        const int64 line = line_numbers(line_pixels, job.padding);
        return {rows, d / line_pixels * line * (is_interleaved ? job.n_interleaved : 1)};
    }
    // The first and the end of the right signals that are needed with a left one. If the result is
    // symmetric, the first one is on the diagonal or after it.
    int64 first_right_of(int64 i) const
    {
        if (job.paired) return i;
        return job.symmetric && job.first_right < i ? i : job.first_right;
    }
    int64 end_right_of(int64 i) const { return job.paired ? i + 1 : job.end_right; }
    // The index of a pair of signals in the results.
    int64 case_at(int64 i, int64 k) const { return i * job.columns + (job.paired ? 0 : k); }

    // Take some strips through all layers together. Return false if the call should end. For
    // results of single pixels, index_of(strip, pixel, lane) is the index of a kernel.
    template <class Index>
    bool all_layers(int64 count, Index index_of)
    {
        for (int64 layer_number = 0; layer_number <= job.depth; layer_number++)
            for (int64 s = 0; s < count; s++) {
                if (stopped()) return false;
                Strip<R> &strip = strips.strip[s];
                if (layer_number == 0) {
                    layers.enter(strip);
                    continue;
                }
                layers.pass(strip, layer_number);
                const Layer &l = job.layers[layer_number - 1];
                if (l.depth_index >= 0 && is_of_pixels(job.output))
                    results.write_pixels(strip, l,
                                         [&](int64 j, int64 q) { return index_of(s, j, q); });
            }
        return true;
    }

    // ------------------------------------------------------------------ all pixel pairs

    // The lanes of a vector are pixels of one right signal.
    Status run_all_pairs()
    {
        for (int64 i = job.first_left; i < job.end_left; i++)
            for (int64 k = first_right_of(i); k < end_right_of(i); k++) {
                const int order = order_of_sides(i, k);
                const Status status =
                    order > 0 ? pair(job.right, k, job.left, i, case_at(i, k), false)
                              : pair(job.left, i, job.right, k, case_at(i, k), order == 0);
                if (status != DONE) return status;
            }
        return DONE;
    }
    // 1 if the signals i and k are to be swapped, 0 if they are equal, and else -1. For sums, the
    // longer signal is computed as the left one, and for equal lengths the one that is first in
    // `order_of`, so that the result does not depend on which of them is given as the left one.
    int order_of_sides(int64 i, int64 k) const
    {
        if (job.output != SUMS) return -1;
        const int64 longer = job.right.length[k] - job.left.length[i];
        if (longer) return longer > 0 ? 1 : -1;
        const Table<R> x = table(job.left, i, false), z = table(job.right, k, false);
        return order_of(job.left.key[i], x.rows, job.right.key[k], z.rows, job.n_rows * x.stride);
    }
    // Compute the kernels of signal s of a and signal t of b, and write them to the index
    // `case_index`. If the signals are equal, an offset and its opposite have the same sum, so that
    // one of them is computed and counts `twice`.
    Status pair(const Side &a, int64 s, const Side &b, int64 t, int64 case_index, bool twice)
    {
        const int64 d = a.length[s], e = b.length[t],
                    line_pixels = job.height ? job.line_pixels : e,
                    height = job.height ? job.height : 1;
        if (!lay_out(d, e)) return NO_MEMORY;
        Strip<R> &strip = strips.strip[0];
        const Table<R> right_table = table(b, t, false);
        const double product = a.bias[s] * b.bias[t];
        strip.x = table(a, s, false);
        strip.z = right_table;
        strip.biases = number<V>(product);
        strip.sums.clear();
        const double left = job.output == SHARES ? 1.0 : double(d);
        if (!is_of_pixels(job.output)) results.sum_F0(strip, 0, a, s, b, t, left * double(e));
        for (int64 lines = 0; lines <= (twice ? height / 2 : height - 1); lines++) {
            if (job.height) layout.place_right(lines);
            const bool half = twice && (lines == 0 || 2 * lines == height);
            const int64 offsets = half ? line_pixels / 2 + 1 : line_pixels;
            for (int64 offset = 0; offset < offsets; offset += LANES) {
                strip.z.rows = right_table.rows + offset;
                strip.valid_lanes = offsets - offset < LANES ? offsets - offset : LANES;
                for (int64 q = 0; q < strip.valid_lanes; q++) {
                    const bool is_own_opposite = half && 2 * (offset + q) % line_pixels == 0;
                    strip.sums.times[q] = twice && !is_own_opposite ? 2.0 : 1.0;
                }
                auto index_of = [&](int64, int64 j, int64 q) INLINED {
                    const int64 y = (j / line_pixels + lines) % height,
                                x = (j % line_pixels + offset + q) % line_pixels;
                    return (case_index * job.extent + j) * job.extent +
                           (job.height ? y * line_pixels + x : (j + offset + q) % e);
                };
                if (!all_layers(1, index_of)) return STOPPED;
            }
        }
        if (job.output == SHARES)
            results.write_sums(strip, 0, double(d) * double(e), double(e) * product,
                               case_index * job.extent);
        if (job.output == SUMS)
            results.write_sums(strip, 0, double(d) * double(e), double(d) * double(e) * product,
                               case_index);
        return DONE;
    }

    // ------------------------------------------------------------------ some offsets, or none

    // The lanes of a vector are right signals, or offsets of one right signal. Some left signals go
    // through the layers together.
    Status run_some_offsets()
    {
        // If the tables of fewer than LANES signals are interleaved, further lanes are not used.
        const int64 group = job.n_interleaved < LANES ? job.n_interleaved : LANES;
        for (int64 i = job.first_left, count; i < job.end_left; i += count) {
            const int64 d = job.left.length[i];
            if (!lay_out(d, d)) return NO_MEMORY;
            count = job.end_left - i < strips.count ? job.end_left - i : strips.count;
            if (job.paired) count = 1;
            for (int64 k = first_right_of(i) / group * group; k < end_right_of(i); k += group)
                if (!several_pairs(i, count, k, k + group)) return STOPPED;
        }
        return DONE;
    }
    // Compute `count` left signals from i on with the right signals k ... `end` - 1. Return false
    // if the call should end.
    bool several_pairs(int64 i, int64 count, int64 k, int64 end)
    {
        double products[MOST_STRIPS][LANES];
        const bool is_interleaved = job.n_interleaved > 1;
        Table<R> z = table(job.right, k, is_interleaved);
        z.rows += k % job.n_interleaved;
        for (int64 s = 0; s < count; s++) {
            Strip<R> &strip = strips.strip[s];
            strip.x = table(job.left, i + s, false);
            strip.z = z;
            strip.valid_lanes = LANES;
            strip.sums.clear();
            for (int q = 0; q < LANES; q++) {
                const int64 t = is_interleaved ? k + q : k;
                products[s][q] =
                    t < end_right_of(i) ? job.left.bias[i + s] * job.right.bias[t] : 0.0;
                strip.biases[q] = R(products[s][q]);
            }
        }
        auto index_of = [&](int64 s, int64, int64 q) INLINED {
            const bool counts =
                k + q < end && k + q >= first_right_of(i + s) && k + q < end_right_of(i);
            return counts ? case_at(i + s, k + q) : int64(-1);
        };
        if (job.n_offset_ranges ? !all_offsets(count) : !all_layers(count, index_of)) return false;
        const double d = double(layout.left_length);
        for (int64 s = 0; s < count; s++)
            for (int64 q = 0; q < LANES; q++) {
                const int64 index = index_of(s, 0, q);
                if (index < 0 || is_of_pixels(job.output)) continue;
                const bool shares = job.output == SHARES;
                if (job.n_offset_ranges)
                    results.sum_F0(strips.strip[s], q, job.left, i + s, job.right, k + q,
                                   job.pool_count_sum);
                results.write_sums(strips.strip[s], q, d * job.pool_count_sum,
                                   (shares ? 1.0 : d) * job.pool_count_sum * products[s][q],
                                   index * (shares ? job.extent : 1));
            }
        return true;
    }
    // Whether the sums of a strip belong to an offset o, to -o, or to both, where these are equal.
    enum class Direction { FORWARD, BACKWARD, BOTH };
    // Offsets that go through the layers together. There is a strip for each offset (or vector of
    // offsets) and each left signal.
    struct OffsetGroup {
        const double *pool_counts[MOST_STRIPS];  // those of the offset, or of the vector's offsets
        Direction direction[MOST_STRIPS];
        int64 lane_offsets[MOST_STRIPS];  // how many lanes are offsets; 0 if lanes are signals
        int64 count = 0;
    };
    // For a pooled head, take the strips of some left signals through the layers at all offsets,
    // and set their sums to the sums over offsets. Return false if the call should end. The lanes
    // are right signals if the tables of these are interleaved, and offsets if not. The sum over
    // opposite offsets is added to that over offsets last, so that swapping both signals swaps only
    // these two summands.
    bool all_offsets(int64 count)
    {
        const bool is_interleaved = job.n_interleaved > 1;
        const int64 line_pixels = job.height ? job.line_pixels : layout.left_length;
        Table<R> x[MOST_STRIPS];
        const Table<R> z = strips.strip[0].z;
        for (int64 s = 0; s < count; s++) {
            x[s] = strips.strip[s].x;
            strips.strip[s].sums.clear_offsets();
        }
        OffsetGroup group;
        for (int backwards = 0; backwards <= job.half; backwards++) {
            const bool sides_change = backwards && !is_interleaved,
                       left_moves = backwards && is_interleaved;
            const double *counts = job.pool_counts;
            for (int64 r = 0; r < job.n_offset_ranges; counts += job.offset_ranges[r++].count) {
                const OffsetRange &range = job.offset_ranges[r];
                if (job.height) {
                    if (!through_layers(group, count)) return false;
                    layout.place_left(left_moves ? range.line_shift : 0);
                    layout.place_right(left_moves ? 0 : range.line_shift);
                }
                // The first offset is 0, which is its own opposite and is not computed backwards.
                for (int64 o = backwards && r == 0, step; o < range.count; o += step) {
                    const int64 shift = (range.first + o) % line_pixels;
                    step = is_interleaved ? 1 : range.count - o < LANES ? range.count - o : LANES;
                    for (int64 s = 0; s < count; s++) {
                        Strip<R> &strip = strips.strip[group.count * count + s];
                        strip.x = sides_change ? z : x[s];
                        strip.z = sides_change ? x[s] : z;
                        if (left_moves)
                            strip.x.rows += shift;
                        else
                            strip.z.rows += shift * job.n_interleaved;
                        strip.valid_lanes = LANES;
                        strip.biases = strips.strip[s].biases;
                        strip.sums.clear();
                    }
                    group.pool_counts[group.count] = counts + o;
                    group.lane_offsets[group.count] = is_interleaved ? 0 : step;
                    const bool is_opposite = r == 0 && o == 0 && job.half;
                    group.direction[group.count++] = backwards     ? Direction::BACKWARD
                                                     : is_opposite ? Direction::BOTH
                                                                   : Direction::FORWARD;
                    if ((group.count + 1) * count > strips.count && !through_layers(group, count))
                        return false;
                }
            }
        }
        if (!through_layers(group, count)) return false;
        for (int64 s = 0; s < count; s++) strips.strip[s].sums.replace_by_sum_over_offsets();
        return true;
    }
    // Take the strips of a group through the layers, and add their sums to those over offsets.
    bool through_layers(OffsetGroup &group, int64 count)
    {
        if (group.count &&
            !all_layers(group.count * count, [](int64, int64, int64) { return int64(-1); }))
            return false;
        for (int64 k = 0; k < group.count; k++)
            for (int64 s = 0; s < count; s++) {
                const Sums &offset = strips.strip[k * count + s].sums;
                Sums &total = strips.strip[s].sums;
                total.add_offset(offset, group.direction[k] == Direction::BACKWARD,
                                 group.pool_counts[k], group.lane_offsets[k]);
                // Offset 0 is the first lane.
                if (group.direction[k] == Direction::BOTH)
                    total.add_offset(offset, 1, group.pool_counts[k], group.lane_offsets[k] > 0);
            }
        group.count = 0;
        return true;
    }
};

template <class R, bool CARRIES_U_PLUS, bool NTK>
int run(const Job &job)
{
    return Pairs<R, CARRIES_U_PLUS, NTK>(job).run();
}
template <class R>
int start(const Job *job)
{
    if (job->bytes != int64(sizeof(Job))) return OTHER_VERSION;
    if (job->padding && job->padding < Lanes<R>::LANES) return OTHER_VERSION;
    if (job->has_U_plus)
        return job->with_ntk ? run<R, true, true>(*job) : run<R, true, false>(*job);
    return job->with_ntk ? run<R, false, true>(*job) : run<R, false, false>(*job);
}
}  // namespace

#if defined(_WIN32)
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif
EXPORT int rescntk_run_float64(const Job *job)
{
    return start<double>(job);
}
EXPORT int rescntk_run_float32(const Job *job)
{
    return start<float>(job);
}
// The number of bytes of a vector.
EXPORT int rescntk_vector_bytes()
{
    return VECTOR_BYTES;
}
// A hash of the files from which this library was compiled.
EXPORT const char *rescntk_sources()
{
    return SOURCES;
}
#if defined(LEVELS)  // only in the library that works on every processor
// The best of the levels in build.py that this processor and its operating system support.
EXPORT int rescntk_level()
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))) return 1;
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")))
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
