// The vectors of a strip: which pixel pairs they have, and in which vectors the taps of
// convolutions are.
//
// A vector of a strip consists of the pixel pairs of one left pixel with LANES right pixels. The
// taps of a filter move both pixels of a pair to another vector. This is a strip of two signals of
// d = e = 4 pixels, with LANES = 2 lanes that have the offsets 1 and 2:
//
//             vector   left  right         closed: a ring, whose last vector is beside its first
//     ┌──▶      0      0     1 2
//     │         1      1     2 3     }
//     │         2      2     3 0     }  a convolution of three taps around vector 2
//     └──       3      3     0 1     }
//
// If signals have d = 2 and e = 5 pixels, the ring has 10 vectors, of which filters that reach 2
// pixels need only 6:
//
//             vector   left  right         open: a strip, which becomes shorter with each filter
//               0      0     3 4
//               1      1     4 0
//     begin     2      0     0 1     }  the left signal itself: vectors that count
//               3      1     1 2     }
//     end       4      0     2 3
//               5      1     3 4
//
// If not all pixel pairs are needed, the lanes are LANES right signals, at the pixel j' = j or at
// some offset from j, or they are some offsets of one right signal.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include "../compiled/formulas.h"

namespace
{
int64 modulo(int64 a, int64 n)
{
    return (a % n + n) % n;
}
int64 common_divisor(int64 a, int64 b)
{
    while (b) {
        const int64 remainder = a % b;
        a = b;
        b = remainder;
    }
    return a;
}

// Memory that begins at a cache line, for systems with and without aligned allocation.
struct Memory {
    Memory() = default;
    Memory(const Memory &) = delete;
    ~Memory() { free(allocation); }
    // Free the present memory and return some bytes of new memory, or null if there is not enough.
    void *take(int64 bytes)
    {
        constexpr uintptr_t line = 64;
        free(allocation);
        allocation = malloc(size_t(bytes) + line);
        return allocation ? (void *)((uintptr_t(allocation) + line) / line * line) : nullptr;
    }

private:
    void *allocation = nullptr;
};

struct Layout {
    const Job &job;
    int64 left_length = 0, right_length = 0;  // the numbers of pixels of both signals
    int64 left_lines, right_lines;  // by how many lines the pixels of an image are shifted
    int64 n;                        // the number of vectors
    // The vectors of the left signal itself, counted_begin ... counted_end - 1.
    int64 counted_begin, counted_end;
    int64 stride;  // how many numbers a table has from a right pixel to the next
    bool closed;   // whether the vectors are a ring, as in the first picture
    int *left_position, *right_position;  // (n,), where the vectors' pixels are in a table row
    int **tap_vectors;  // for each convolution (n_taps, n), the vectors of its taps
    // For each convolution (n,): in the vectors from j to run_ends[convolution][j] - 1, the
    // positions of pixels and the vectors at each tap are consecutive. The last array considers
    // only the positions.
    int **run_ends;

    explicit Layout(const Job &job) : job(job) {}
    bool is_of(int64 d, int64 e) const { return left_length == d && right_length == e; }

    // Lay out the vectors of a left signal of d pixels and a right signal of e pixels. Return
    // whether there is enough memory.
    bool lay_out(int64 d, int64 e)
    {
        left_length = d;
        right_length = e;
        measure();
        int *free_numbers = take_memory();
        if (!free_numbers) {
            left_length = 0;
            return false;
        }
        left_lines = right_lines = -1;
        place_left(0);
        place_right(0);
        free_numbers = find_taps(free_numbers);
        for (int64 m = 0; m <= job.n_convolutions; m++, free_numbers += n) {
            run_ends[m] = free_numbers;
            find_runs(m);
        }
        return true;
    }
    // Set the positions of the left or of the right pixels, shifted by some lines of an image.
    void place_left(int64 lines)
    {
        if (lines != left_lines)
            for (int64 j = 0; j < n; j++)
                left_position[j] =
                    position(modulo(pixels_after_begin(j), left_length), left_length, lines);
        left_lines = lines;
    }
    void place_right(int64 lines)
    {
        if (lines != right_lines)
            for (int64 j = 0; j < n; j++)
                right_position[j] =
                    int(stride) *
                    position(modulo(pixels_after_begin(j), right_length), right_length, lines);
        right_lines = lines;
    }
    // The number of vectors from the middle tap of a convolution to the last one, in an open strip.
    int64 reach(const Convolution &convolution) const
    {
        return vectors_in(convolution.dilation) * (convolution.n_taps / 2);
    }

private:
    // The dilations of all convolutions are multiples of `dilation_unit` pixels, which are
    // `dilation_unit_vectors` vectors.
    int64 dilation_unit, dilation_unit_vectors;
    Memory memory;

    // Determine the number of vectors. An open strip extends on both sides by the reach of all
    // convolutions together. If their dilations are multiples of a unit that is longer than the
    // left signal, some pixels between the taps are never read, and have no vectors.
    void measure()
    {
        const int64 d = left_length, e = right_length;
        const int64 ring = d / common_divisor(d, e) * e, counted = job.output == PIXEL_1 ? 1 : d;
        int64 margin = 0;
        dilation_unit = 0;
        for (int64 m = 0; m < job.n_convolutions; m++)
            dilation_unit = common_divisor(dilation_unit, job.convolutions[m].dilation);
        dilation_unit_vectors = dilation_unit > counted ? counted : dilation_unit;
        for (int64 m = 0; m < job.n_operations && margin < ring; m++)
            if (job.operations[m].convolution >= 0)
                margin += reach(job.convolutions[job.operations[m].convolution]);
        closed = job.height || ring <= counted + 2 * margin || (d == e && counted == d);
        n = closed ? ring : counted + 2 * margin;
        counted_begin = closed ? 0 : margin;
        counted_end = counted_begin + counted;
        stride = job.all_pairs ? 1 : job.n_interleaved;
    }
    // Allocate memory for positions, taps and runs. Return where taps and runs begin, or null.
    int *take_memory()
    {
        int64 n_taps = 0;
        for (int64 m = 0; m < job.n_convolutions; m++) n_taps += job.convolutions[m].n_taps;
        const int64 pointers = 2 * job.n_convolutions + 1,
                    numbers = (3 + n_taps + job.n_convolutions) * n;
        tap_vectors =
            (int **)memory.take(int64(sizeof(int *)) * pointers + int64(sizeof(int)) * numbers);
        if (!tap_vectors) return nullptr;
        run_ends = tap_vectors + job.n_convolutions;
        left_position = (int *)(run_ends + job.n_convolutions + 1);
        right_position = left_position + n;
        return right_position + n;
    }
    int *find_taps(int *free_numbers)
    {
        for (int64 m = 0; m < job.n_convolutions; m++) {
            const Convolution &convolution = job.convolutions[m];
            const int64 vectors = closed ? convolution.dilation : vectors_in(convolution.dilation);
            tap_vectors[m] = free_numbers;
            for (int64 t = -(convolution.n_taps / 2); t <= convolution.n_taps / 2; t++)
                for (int64 j = 0; j < n; j++)
                    *free_numbers++ = neighbour(j, t * vectors, convolution.axis);
        }
        return free_numbers;
    }
    void find_runs(int64 convolution)
    {
        const int64 n_taps =
            convolution < job.n_convolutions ? job.convolutions[convolution].n_taps : 0;
        int *const run = run_ends[convolution];
        for (int64 j = n - 1; j >= 0; j--) {
            bool follows = j + 1 < n && left_position[j + 1] == left_position[j] + 1 &&
                           right_position[j + 1] == right_position[j] + stride;
            for (int64 t = 0; t < n_taps && follows; t++)
                follows = tap_vectors[convolution][t * n + j + 1] ==
                          tap_vectors[convolution][t * n + j] + 1;
            run[j] = follows ? run[j + 1] : int(j + 1);
        }
    }
    int64 vectors_in(int64 pixels) const
    {
        return dilation_unit == dilation_unit_vectors
                   ? pixels
                   : pixels / dilation_unit * dilation_unit_vectors;
    }
    // How many pixels after the vector `counted_begin` a vector is, in the signals.
    int64 pixels_after_begin(int64 j) const
    {
        const int64 after = j - counted_begin;
        if (closed || dilation_unit == dilation_unit_vectors) return after;
        const int64 units = (after - modulo(after, dilation_unit_vectors)) / dilation_unit_vectors;
        return after + units * (dilation_unit - dilation_unit_vectors);
    }
    // The position of a pixel in a table row, after a shift by some lines of an image.
    int position(int64 pixel, int64 length, int64 lines) const
    {
        const int64 line_pixels = job.height ? job.line_pixels : length,
                    line = line_numbers(line_pixels, job.padding),
                    y = job.height ? (pixel / line_pixels + lines) % job.height : 0;
        return int(y * line + pixel % line_pixels);
    }
    int neighbour(int64 j, int64 shift, int64 axis) const
    {
        if (closed) return int(job.height ? shifted(j, shift, axis) : modulo(j + shift, n));
        return int(j + shift < 0 || j + shift >= n ? j : j + shift);  // vectors beyond are not used
    }

public:
    // The pixel of an image after a shift by some pixels, on the ring of its line or column.
    int64 shifted(int64 pixel, int64 by, int64 axis) const
    {
        const int64 y = pixel / job.line_pixels, x = pixel % job.line_pixels;
        return axis ? y * job.line_pixels + modulo(x + by, job.line_pixels)
                    : modulo(y + by, job.height) * job.line_pixels + x;
    }
};
}  // namespace
