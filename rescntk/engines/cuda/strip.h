// A strip of pixel pairs, and the thread's part of it: its pixels and tables. The threads of a team
// read each other's pixels through shared memory.
#pragma once
#include "../compiled/formulas.h"
#include "launch.h"

// Loops over the pixels of a thread. If there are only one or two, the loop is unrolled and the
// state is in registers. The state of more pixels is in local memory, so that the code stays short.
#define OVER_PIXELS(p)                                                                             \
    _Pragma("unroll (THREAD_PIXELS <= 2 ? THREAD_PIXELS : 1)") for (int p = 0; p < THREAD_PIXELS;  \
                                                                    p++)
#define OVER_LANES(q)                                                                              \
    UNROLL                                                                                         \
    for (int q = 0; q < LANES; q++)

// The type of N numbers that one instruction loads.
template <class R, int N>
struct Vector;
template <>
struct Vector<float, 1> {
    using type = float;
};
template <>
struct Vector<float, 2> {
    using type = float2;
};
template <>
struct Vector<float, 4> {
    using type = float4;
};
template <>
struct Vector<double, 1> {
    using type = double;
};
template <>
struct Vector<double, 2> {
    using type = double2;
};

template <class R, int LANES, int THREAD_PIXELS, bool ALL>
struct Strip {
    using ThreadNumbers = R[THREAD_PIXELS][LANES];  // one number for each pixel pair of the thread
    using LaneVector = typename Vector<R, LANES>::type;
    struct Pack {
        R lane[LANES];
        FORMULA R operator[](int q) const { return lane[q]; }
        FORMULA Pack operator+(const Pack &other) const
        {
            Pack sum;
            OVER_LANES (q) sum.lane[q] = lane[q] + other.lane[q];
            return sum;
        }
    };
    struct State {
        ThreadNumbers U, U_plus, A;
        FORMULA PairNumbers<R> at(int p, int q) const { return {U[p][q], U_plus[p][q], A[p][q]}; }
        template <bool WITH_U_PLUS, bool NTK>
        FORMULA void put(int p, int q, const PairNumbers<R> &numbers)
        {
            U[p][q] = numbers.U;
            if (WITH_U_PLUS) U_plus[p][q] = numbers.U_plus;
            if (NTK) A[p][q] = numbers.A;
        }
    };

    const Launch &launch;
    const Job &job;
    const int thread;        // the index of the thread in its team
    const int threads;       // the number of threads of a team
    const int team;          // the index of the team in its block
    const int n;             // the number of pixels of a signal
    const int lines;         // the number of lines of an image, or 1 for signals
    const int line_pixels;   // the number of pixels of a line
    char *const memory;      // the shared memory of the team
    const R *x, *z;          // the tables of the left and of the right signal
    int x_stride, z_stride;  // the numbers of a row of both tables
    int left_position[THREAD_PIXELS],
        right_position[THREAD_PIXELS];  // the pixels' positions in a table row
    int valid_lanes;                    // how many lanes count
    R pool_counts[LANES];  // for pooled heads, the number n of the offset of each lane (heads.py)

    __device__ Strip(const Launch &launch, char *block_memory)
        : launch(launch), job(launch.job), thread(int(threadIdx.x % launch.threads)),
          threads(int(launch.threads)), team(int(threadIdx.x / launch.threads)),
          n(int(launch.job.extent)), lines(launch.job.height ? int(launch.job.height) : 1),
          line_pixels(n / lines), memory(block_memory + team * launch.team_bytes)
    {
    }

    // ------------------------------------------------------------------ pixels and tables

    FORMULA int pixel(int p) const { return thread + p * threads; }
    FORMULA bool has_pixel(int p) const { return THREAD_PIXELS == 1 || pixel(p) < n; }
    FORMULA const R *left(int64 row, int p) const
    {
        return x + (int(row) * x_stride + left_position[p]);
    }
    FORMULA const R *right(int64 row, int p) const
    {
        return z + (int(row) * z_stride + right_position[p]);
    }
    FORMULA static Pack load_lanes(const R *first)
    {
        const LaneVector vector = *(const LaneVector *)first;
        Pack pack;
        OVER_LANES (q) pack.lane[q] = ((const R *)&vector)[q];
        return pack;
    }
    // Return one number for each lane. If all pixel pairs are computed, the first lane may be any
    // pixel, so that the numbers are not aligned and are loaded one by one.
    FORMULA static Pack lanes_of(const R *first)
    {
        if (!ALL) return load_lanes(first);
        Pack pack;
        OVER_LANES (q) pack.lane[q] = first[q];
        return pack;
    }
    FORMULA R product(int64 row, int p, int q) const { return *left(row, p) * right(row, p)[q]; }

    // Set the positions of the strip's pixels in the tables. A right pixel is `shift` lines and
    // `offset` pixels away from the left one.
    FORMULA void place(int shift, int offset)
    {
        OVER_PIXELS (p) {
            const int j = has_pixel(p) ? pixel(p) : 0, y = j / line_pixels,
                      column = j % line_pixels;
            if (ALL) {
                const int line = int(line_numbers(line_pixels, LANES));
                left_position[p] = y * line + column;
                right_position[p] = (y + shift) % lines * line + column + offset;
            } else {
                left_position[p] = j;
                right_position[p] = j * LANES;
            }
        }
    }
    // A ring of pixels along a line or across lines. Neighbours on the ring are `stride` pixels
    // apart. `index` is that of `pixel` on the ring.
    struct Ring {
        int size, stride, index, pixel;
        FORMULA int wrapped(int position) const
        {
            return pixel + ((position < size ? position : position - size) - index) * stride;
        }
    };
    FORMULA Ring ring_of(int j, bool along_lines) const
    {
        if (lines == 1) return {line_pixels, 1, j, j};
        return along_lines ? Ring{line_pixels, 1, j % line_pixels, j}
                           : Ring{lines, line_pixels, j / line_pixels, j};
    }
    // Add the squares of a + sign b, for the coordinates a and b of one part, to the sums.
    FORMULA static void differ(R a, const R *b, R (&sum)[LANES], R sign = -1)
    {
        const Pack other = lanes_of(b);
        OVER_LANES (q) {
            const R e = fused(sign, other[q], a);
            sum[q] = fused(e, e, sum[q]);
        }
    }
    // Compute N, which a merge adds to deficits: the squared distance of the coordinates, times the
    // product of the factors of both signals (merge.py).
    FORMULA void merge_term(int64 row, int parts, int p, R (&N)[LANES]) const
    {
        // The coordinate of part t > 0 is in the row FACTOR_ROW + t. Both pointers move on before
        // each part; part 0 has no coordinate.
        const R *a = left(row + FACTOR_ROW, p), *b = right(row + FACTOR_ROW, p);
        const Pack factor = lanes_of(b);
        R g[LANES];
        OVER_LANES (q) {
            g[q] = *a * factor[q];
            N[q] = 0;
        }
        UNROLL
        for (int part = 1; part < parts; part++) {
            a += x_stride;
            b += z_stride;
            differ(*a, b, N);
        }
        OVER_LANES (q) N[q] *= g[q];
    }

    // ------------------------------------------------------------------ shared memory

    // The numbers of all pixels of the strip in shared memory, with HALO more pixels at both ends.
    // Ring 0 has U, ring 1 has A if NTK, and the last ring has U+.
    FORMULA R *ring(int number) const
    {
        return (R *)memory + (number * (n + 2 * HALO) + HALO) * LANES;
    }
    FORMULA void put(int number, const ThreadNumbers &numbers, bool halo) const
    {
        OVER_PIXELS (p) {
            if (!has_pixel(p)) continue;
            LaneVector vector;
            OVER_LANES (q) ((R *)&vector)[q] = numbers[p][q];
            LaneVector *const place = (LaneVector *)ring(number) + pixel(p);
            *place = vector;
            if (halo && pixel(p) < HALO) place[n] = vector;
            if (halo && pixel(p) >= n - HALO) place[-n] = vector;
        }
    }
    // Write a state to shared memory, between two barriers, so that the team can read it.
    template <bool WITH_U_PLUS, bool NTK>
    FORMULA void show(const State &s, bool halo = false) const
    {
        __syncthreads();
        put(0, s.U, halo);
        if (NTK) put(1, s.A, halo);
        if (WITH_U_PLUS) put(1 + NTK, s.U_plus, halo);
        __syncthreads();
    }
    FORMULA void add(int number, int pixel, R weight, R (&sum)[LANES]) const
    {
        const Pack pack = load_lanes(ring(number) + pixel * LANES);
        OVER_LANES (q) sum[q] = fused(weight, pack[q], sum[q]);
    }
    // Add the difference from the number in the middle of a convolution.
    FORMULA void add_difference(int number, int pixel, R weight, const R (&middle)[LANES],
                                R (&sum)[LANES]) const
    {
        const Pack pack = load_lanes(ring(number) + pixel * LANES);
        OVER_LANES (q) sum[q] = fused(weight, pack[q] - middle[q], sum[q]);
    }
};
