// The recursion of ReLU networks (engines/layer/recursion.py) on strips of pixel pairs, on a GPU.
//
// A strip consists of the pixel pairs (j, j') of all left pixels j with LANES right pixels j' each.
// If all pixel pairs are needed (ALL), or those in a common pool (also POOLED), right pixels are
// neighbouring pixels of one right signal. If not, they are the pixels j' = j of LANES right
// signals. The taps of a filter move both pixels of a pair, and so stay in the strip, which is a
// ring (for images, a ring of rings).
//
// A team of threads takes a strip through all layers. The order of all sums is fixed, so that a
// result depends only on its pair of signals. If the result is symmetric, only pairs on and above
// the diagonal are computed.
//
//   ../compiled/formulas.h  the steps of a layer for one pixel pair
//   strip.h                 a strip: its pixels, its tables and its shared memory
//   layers.h                the layers, applied to a strip
//   strips.cu               pairs of signals, their results, and the GPU kernel
#include "layers.h"

template <class R, int LANES, int THREAD_PIXELS, bool ALL, bool POOLED, bool CARRIES_U_PLUS,
          bool NTK, bool KEEPS_PIXELS>
struct Pairs {
    using TheseLayers =
        Layers<R, LANES, THREAD_PIXELS, ALL, POOLED, CARRIES_U_PLUS, NTK, KEEPS_PIXELS>;
    static constexpr int PAIRS = TheseLayers::PAIRS;
    const Launch &launch;
    const Job &job;
    TheseLayers layers;

    __device__ Pairs(const Launch &launch, char *block_memory)
        : launch(launch), job(launch.job), layers(launch, block_memory)
    {
    }

    // ------------------------------------------------------------------ results

    // Add the sums of all threads of the team, and return where the totals are. For the signal pair
    // m, the total of the GPK is at the index m * threads, and that of the NTK at the index
    // (PAIRS + m) * threads.
    FORMULA double *totals(double input_weight) const
    {
        auto &strip = layers.strip;
        double *total = (double *)strip.memory;
        const int thread = strip.thread, threads = strip.threads;
        __syncthreads();
        UNROLL
        for (int m = 0; m < PAIRS; m++) {
            const double F = fma(input_weight, layers.F0[m], layers.F[m]);
            total[m * threads + thread] = F;
            total[(PAIRS + m) * threads + thread] = fma(
                job.later_readout, F, fma(input_weight * job.initial, layers.F0[m], layers.A[m]));
        }
        int half = 1;
        while (2 * half < threads) half *= 2;
        for (; half > 0; half /= 2) {
            __syncthreads();
            if (thread < half && thread + half < threads) {
                UNROLL
                for (int m = 0; m < 2 * PAIRS; m++)
                    total[m * threads + thread] += total[m * threads + thread + half];
            }
        }
        __syncthreads();
        return total;
    }
    // How many numbers the results have at each depth.
    FORMULA int64 numbers() const
    {
        auto &strip = layers.strip;
        const int64 n = strip.n;
        return job.cases * job.columns *
               (job.output == PIXELS   ? n * n
                : job.output == SHARES ? n
                                       : 1);
    }
    // The index of a pair of signals in the results.
    FORMULA int64 case_at(int64 i, int64 k) const
    {
        return (launch.first_row + i) * job.columns + (job.paired ? 0 : launch.first_column + k);
    }
    // Whether a pair of signals is computed. If the result is symmetric, it is on the diagonal or
    // above it.
    FORMULA bool is_needed(int64 i, int64 k) const
    {
        return !job.symmetric || launch.first_column + k >= launch.first_row + i;
    }
    FORMULA void write(int64 index, double gpk, double ntk) const
    {
        if (job.gpk) job.gpk[index] = gpk;
        if (job.ntk) job.ntk[index] = ntk;
    }
    FORMULA void add_to(int64 index, double gpk, double ntk) const
    {
        if (job.gpk) job.gpk[index] += gpk;
        if (job.ntk) job.ntk[index] += ntk;
    }
    // Compute both kernels at a pixel pair, with or without their multiples of F0.
    FORMULA void kernels(const Layer &l, int p, int q, bool with_F0, double &gpk, double &ntk) const
    {
        auto &strip = layers.strip;
        const auto &pixel_kernels = layers.pixel_kernels;
        gpk = l.std_row >= 0 ? strip.product(l.std_row, p, q) - layers.state.U[p][q]
              : with_F0 ? fused(R(l.input_weight), pixel_kernels.F0[p][q], pixel_kernels.F[p][q])
                        : pixel_kernels.F[p][q];
        ntk = !NTK ? 0.0 : l.std_row >= 0 || with_F0 ? layers.state.A[p][q] : pixel_kernels.A[p][q];
        if (NTK) ntk += job.later_readout * gpk;
    }

    // ------------------------------------------------------------------ all pixel pairs

    struct Sides {
        const Side *left, *right;
        int64 i, k;  // the indices of the signals
    };
    // The left and the right signal of a pair, in the order in which they are computed. It does
    // not depend on which of them is given as the left one.
    FORMULA Sides sides_of(int64 i, int64 k)
    {
        auto &strip = layers.strip;
        const R *rows_i = (const R *)job.left.rows + job.left.begin[i];
        const R *rows_k = (const R *)job.right.rows + job.right.begin[k];
        strip.x_stride = strip.z_stride = strip.lines * int(line_numbers(strip.line_pixels, LANES));
        const bool exchanged = !KEEPS_PIXELS && order_of(job.left.key[i], rows_i, job.right.key[k],
                                                         rows_k, job.n_rows * strip.x_stride) > 0;
        strip.x = exchanged ? rows_k : rows_i;
        strip.z = exchanged ? rows_i : rows_k;
        if (exchanged) return {&job.right, &job.left, k, i};
        return {&job.left, &job.right, i, k};
    }
    // Compute one pair of signals. The teams of all its blocks divide its offsets among them.
    FORMULA void all_pairs()
    {
        auto &strip = layers.strip;
        const int64 block_of_pair = blockIdx.x % launch.blocks_per_pair,
                    pair = blockIdx.x / launch.blocks_per_pair;
        const int64 n_columns = job.paired ? 1 : job.end_right - job.first_right;
        const int64 i = job.first_left + pair / n_columns,
                    k = job.paired ? i : job.first_right + pair % n_columns;
        if (!is_needed(i, k)) return;
        const Sides sides = sides_of(i, k);
        layers.biases[0] = R(sides.left->bias[sides.i] * sides.right->bias[sides.k]);
        const int64 case_index = case_at(i, k);
        // The offsets of a line, or those of a range. All ranges have the same number of offsets.
        const int n_line_offsets = POOLED ? int(job.offset_ranges[0].count) : strip.line_pixels,
                  lines = POOLED ? int(job.n_offset_ranges) : strip.lines,
                  per_line = (n_line_offsets + LANES - 1) / LANES, groups = lines * per_line,
                  step = int(launch.blocks_per_pair * launch.teams);
        const double F0_sum =
            POOLED && !KEEPS_PIXELS && block_of_pair == 0 ? thread_F0_sum(sides) : 0.0;
        for (int first = int(block_of_pair * launch.teams); first < groups; first += step) {
            const bool active = first + strip.team < groups;
            const int group = active ? first + strip.team : groups - 1, line = group / per_line,
                      begin = group % per_line * LANES;
            strip.valid_lanes = !active                          ? 0
                                : n_line_offsets - begin < LANES ? n_line_offsets - begin
                                                                 : LANES;
            int shift = line, offset = begin;
            if (POOLED) {
                shift = int(job.offset_ranges[line].line_shift);
                offset = (int(job.offset_ranges[line].first) + begin) % strip.line_pixels;
                OVER_LANES (q)
                    strip.pool_counts[q] =
                        q < strip.valid_lanes
                            ? R(job.pool_counts[line * n_line_offsets + begin + q])
                            : R(0);
            }
            strip.place(shift, offset);
            layers.run(first + strip.team == 0 ? F0_sum : 0.0, [&](const Layer &l) {
                if (KEEPS_PIXELS)
                    report_pixels(l, l.depth_index * numbers(), case_index, shift, offset);
                else
                    report_sums(l, (block_of_pair * launch.n_depths + l.depth_index) * numbers() +
                                       case_index);
            });
        }
        finish(block_of_pair, sides, case_index);
    }
    // The part of this thread in the sum of F0 over the pixel pairs of a pooled head.
    FORMULA double thread_F0_sum(const Sides &sides) const
    {
        auto &strip = layers.strip;
        double sum = 0;
        OVER_PIXELS (p) {
            const int64 first = strip.pixel(p);
            if (!strip.has_pixel(p) || first >= job.terms) continue;
            const int64 count = (job.terms - first + strip.n - 1) / strip.n;
            sum += sum_of<double>(count, [&](int64 k, double part) {
                const int64 c = first + k * strip.n;
                return part + sides.left->means[sides.i * job.terms + c] *
                                  sides.right->means[sides.k * job.terms + c];
            });
        }
        return sum * job.pool_count_sum;
    }
    FORMULA void report_sums(const Layer &l, int64 index) const
    {
        auto &strip = layers.strip;
        const double *total = totals(POOLED ? l.input_weight : 0.0);
        if (threadIdx.x != 0) return;
        for (int64 team = 0; team < launch.teams; team++, total += launch.team_bytes / 8)
            add_to(index, total[0], total[strip.threads]);
    }
    // Write the results of pixels. Those of this depth begin at the index `begin`.
    FORMULA void report_pixels(const Layer &l, int64 begin, int64 case_index, int shift,
                               int offset) const
    {
        auto &strip = layers.strip;
        const int n = strip.n, line_pixels = strip.line_pixels;
        OVER_PIXELS (p) {
            double gpk, ntk, gpk_sum = 0, ntk_sum = 0;
            const int j = strip.pixel(p), y = j / line_pixels, column = j % line_pixels;
            if (!strip.has_pixel(p)) continue;
            OVER_LANES (q) {
                if (q >= strip.valid_lanes) continue;
                kernels(l, p, q, job.output == PIXELS, gpk, ntk);
                gpk_sum += POOLED ? double(strip.pool_counts[q]) * gpk : gpk;
                ntk_sum += POOLED ? double(strip.pool_counts[q]) * ntk : ntk;
                const int64 other =
                    (y + shift) % strip.lines * line_pixels + (column + offset + q) % line_pixels;
                if (job.output == PIXELS) write(begin + (case_index * n + j) * n + other, gpk, ntk);
            }
            if (job.output == SHARES) add_to(begin + case_index * n + j, gpk_sum, ntk_sum);
        }
    }
    // Replace the sums by means, and add the multiples of F0.
    FORMULA void finish(int64 block_of_pair, const Sides &sides, int64 case_index) const
    {
        auto &strip = layers.strip;
        if (job.output == PIXELS || (!KEEPS_PIXELS && threadIdx.x != 0)) return;
        const double count = double(strip.n) * (POOLED ? job.pool_count_sum : double(strip.n));
        for (int layer_number = 1; layer_number <= job.depth; layer_number++) {
            const Layer &l = job.layers[layer_number - 1];
            if (l.depth_index < 0) continue;
            OVER_PIXELS (p) {
                if (KEEPS_PIXELS ? !strip.has_pixel(p) : p > 0) continue;
                const bool in_sums = POOLED && !KEEPS_PIXELS;  // the sums include F0
                const double sum =
                    block_of_pair == 0 && !in_sums
                        ? l.input_weight * F0_sum(sides, KEEPS_PIXELS ? strip.pixel(p) : -1)
                        : 0.0;
                const int64 index =
                    (block_of_pair * launch.n_depths + l.depth_index) * numbers() +
                    (KEEPS_PIXELS ? case_index * strip.n + strip.pixel(p) : case_index);
                write(index, job.gpk ? (job.gpk[index] + sum) / count : 0.0,
                      job.ntk ? (job.ntk[index] + (job.initial + job.later_readout) * sum) / count
                              : 0.0);
            }
        }
    }
    // The sum of F0 over the pixel pairs of the signals, or with shares over those of a left pixel.
    // It is computed from products of means, because it may be 0 although its terms are not.
    FORMULA double F0_sum(const Sides &sides, int pixel) const
    {
        auto &strip = layers.strip;
        const Side &a = *sides.left, &b = *sides.right;
        const int64 terms = job.terms, mean_pixel = POOLED ? pixel : 0;
        const double sum = sum_of<double>(terms, [&](int64 c, double part) {
            const double left = pixel < 0
                                    ? a.means[sides.i * terms + c]
                                    : a.left_terms[(sides.i * terms + c) * a.share_pixels + pixel];
            return part + left * b.means[(sides.k * terms + c) * job.mean_pixels + mean_pixel];
        });
        if (POOLED) return sum * job.pool_count_sum;
        return sum * double(strip.n) * (pixel < 0 ? double(strip.n) : 1.0);
    }

    // ------------------------------------------------------------------ equal pixels

    // Compute the pixel pairs (j, j) of LANES pairs of signals.
    FORMULA void same_pixels()
    {
        auto &strip = layers.strip;
        const int64 first_block = job.first_right / LANES,
                    n_column_groups =
                        job.paired ? 1 : (job.end_right + LANES - 1) / LANES - first_block;
        const int64 item = blockIdx.x * launch.teams + strip.team,
                    n_rows = job.end_left - job.first_left;
        const bool inside = item < n_rows * n_column_groups;
        const int64 i = inside ? job.first_left + item / n_column_groups : job.first_left,
                    block = job.paired ? i / LANES : first_block + item % n_column_groups;
        auto counts = [&](int q) {
            const int64 k = block * LANES + q;
            return inside && k >= job.first_right && k < job.end_right && is_needed(i, k) &&
                   (!job.paired || k == i);
        };
        bool any = false;
        for (int q = 0; q < LANES; q++) any = any || counts(q);
        if (!__syncthreads_or(any)) return;
        strip.x = (const R *)job.left.rows + job.left.begin[i];
        strip.z = (const R *)job.right.rows + job.right.begin[block];
        strip.x_stride = strip.n;
        strip.z_stride = strip.n * LANES;
        for (int q = 0; q < LANES; q++)
            layers.biases[layers.pair_of(q)] =
                counts(q) ? R(job.left.bias[i] * job.right.bias[block * LANES + q]) : R(0);
        strip.valid_lanes = LANES;
        strip.place(0, 0);
        layers.run(0.0, [&](const Layer &l) {
            const double *total = KEEPS_PIXELS ? nullptr : totals(l.input_weight);
            OVER_LANES (q) {
                if (!counts(q)) continue;
                report_lane(l, q, case_at(i, block * LANES + q), total);
            }
        });
    }
    FORMULA void report_lane(const Layer &l, int q, int64 case_index, const double *total) const
    {
        auto &strip = layers.strip;
        const int64 begin = l.depth_index * numbers();
        const int n = strip.n, pair = layers.pair_of(q);
        if (!KEEPS_PIXELS) {
            if (strip.thread == 0)
                write(begin + case_index, total[pair * strip.threads] / n,
                      total[(PAIRS + pair) * strip.threads] / n);
            return;
        }
        OVER_PIXELS (p) {
            double gpk, ntk;
            if (!strip.has_pixel(p)) continue;
            kernels(l, p, q, true, gpk, ntk);
            if (job.output == SHARES)
                write(begin + case_index * n + strip.pixel(p), gpk / n, ntk / n);
            else if (strip.pixel(p) == 0)
                write(begin + case_index, gpk, ntk);
        }
    }
};

template <class R, int LANES, int THREAD_PIXELS, bool ALL, bool POOLED, bool CARRIES_U_PLUS,
          bool NTK, bool KEEPS_PIXELS>
__global__ void __launch_bounds__(MOST_THREADS) strips(const __grid_constant__ Launch launch)
{
    extern __shared__ __align__(16) double memory[];
    Pairs<R, LANES, THREAD_PIXELS, ALL, POOLED, CARRIES_U_PLUS, NTK, KEEPS_PIXELS> pairs(
        launch, (char *)memory);
    if constexpr (ALL)
        pairs.all_pairs();
    else
        pairs.same_pixels();
}
