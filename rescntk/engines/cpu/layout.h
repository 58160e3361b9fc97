// The rows of a strip: which pixel pairs they are, and where the taps of convolutions lie.
//
// Row j of a strip has one left pixel and LANES right ones, its lanes. Filters move both pixels of
// a pair. With all pixel pairs of signals of d = e = 4 pixels, and LANES = 2 lanes from offset 1
// on:
//
//              row    left  right         closed: a ring, whose last row is beside its first
//     ┌──▶      0      0     1 2
//     │         1      1     2 3     }
//     │         2      2     3 0     }  a convolution of three taps around row 2
//     └──       3      3     0 1     }
//
// Of signals of d = 2 and e = 5 pixels, whose ring has 10 rows, filters that reach 2 pixels need 6:
//
//              row    left  right         open: a strip, which becomes shorter with each filter
//               0      0     3 4
//               1      1     4 0
//     first     2      0     0 1     }  the left signal itself: rows that count
//               3      1     1 2     }
//     last      4      0     2 3
//               5      1     3 4
//
// Where not all pixel pairs are wanted, lanes are the pixels j' = j of LANES right signals, or at
// some offset from j.
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

// Memory that begins with a line of the cache, on systems with and without an allocation for that.
struct Memory {
    Memory() = default;
    Memory(const Memory &) = delete;
    ~Memory() { free(allocation); }
    // Return some bytes in place of those there were, or null.
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
    int64 left_length = 0, right_length = 0;
    int64 left_lines, right_lines;  // by which pixels are further on
    int64 n;                        // rows
    int64 first, last;              // rows first ... last - 1 are the left signal itself
    int64 stride;                   // numbers from a right pixel to the next
    bool closed;
    int *left_place, *right_place;  // (n,), the places of the rows' pixels in the tables
    int **near_of;                  // for each convolution (n_taps, n), the rows at its taps
    // For each convolution (n,): rows from j to run_of[convolution][j] have places and taps that
    // follow one another. The last of the runs is of places alone.
    int **run_of;

    explicit Layout(const Job &job) : job(job) {}
    bool is_of(int64 d, int64 e) const { return left_length == d && right_length == e; }

    // Lay out the rows of a left signal of d and a right signal of e pixels; return whether there
    // is memory.
    bool lay_out(int64 d, int64 e)
    {
        left_length = d;
        right_length = e;
        measure();
        int *at = take_memory();
        if (!at) {
            left_length = 0;
            return false;
        }
        left_lines = right_lines = -1;
        place_left(0);
        place_right(0);
        at = place_taps(at);
        for (int64 m = 0; m <= job.n_convolutions; m++, at += n) {
            run_of[m] = at;
            find_runs(m);
        }
        return true;
    }
    // The places of one side's pixels, some lines of an image further on.
    void place_left(int64 lines)
    {
        if (lines != left_lines)
            for (int64 j = 0; j < n; j++)
                left_place[j] = place(modulo(position(j), left_length), left_length, lines);
        left_lines = lines;
    }
    void place_right(int64 lines)
    {
        if (lines != right_lines)
            for (int64 j = 0; j < n; j++)
                right_place[j] =
                    int(stride) * place(modulo(position(j), right_length), right_length, lines);
        right_lines = lines;
    }
    // Rows from the middle tap of a convolution to the last, in an open strip.
    int64 reach(const Convolution &w) const { return rows_in(w.dilation) * (w.n_taps / 2); }

private:
    // Steps of convolutions are multiples of `unit` pixels; unit_rows rows lie between two such
    // taps.
    int64 unit, unit_rows;
    Memory memory;

    // The numbers of rows. An open strip begins and ends as far out as all convolutions reach.
    // Where all their steps are multiples of a unit that is longer than the left signal, the pixels
    // between the taps are never read, and have no rows.
    void measure()
    {
        const int64 d = left_length, e = right_length;
        const int64 ring = d / common_divisor(d, e) * e, counted = job.output == PIXEL_1 ? 1 : d;
        int64 margin = 0;
        unit = 0;
        for (int64 m = 0; m < job.n_convolutions; m++)
            unit = common_divisor(unit, job.convolutions[m].dilation);
        unit_rows = unit > counted ? counted : unit;
        for (int64 m = 0; m < job.n_operations && margin < ring; m++)
            if (job.operations[m].convolution >= 0)
                margin += reach(job.convolutions[job.operations[m].convolution]);
        closed = job.height || ring <= counted + 2 * margin || (d == e && counted == d);
        n = closed ? ring : counted + 2 * margin;
        first = closed ? 0 : margin;
        last = first + counted;
        stride = job.all_pairs ? 1 : job.lanes;
    }
    // Take memory for places, taps and runs; return where taps and runs are, or null.
    int *take_memory()
    {
        int64 n_taps = 0;
        for (int64 m = 0; m < job.n_convolutions; m++) n_taps += job.convolutions[m].n_taps;
        const int64 pointers = 2 * job.n_convolutions + 1,
                    numbers = (3 + n_taps + job.n_convolutions) * n;
        near_of =
            (int **)memory.take(int64(sizeof(int *)) * pointers + int64(sizeof(int)) * numbers);
        if (!near_of) return nullptr;
        run_of = near_of + job.n_convolutions;
        left_place = (int *)(run_of + job.n_convolutions + 1);
        right_place = left_place + n;
        return right_place + n;
    }
    int *place_taps(int *at)
    {
        for (int64 m = 0; m < job.n_convolutions; m++) {
            const Convolution &w = job.convolutions[m];
            const int64 rows = closed ? w.dilation : rows_in(w.dilation);
            near_of[m] = at;
            for (int64 t = -(w.n_taps / 2); t <= w.n_taps / 2; t++)
                for (int64 j = 0; j < n; j++) *at++ = neighbour(j, t * rows, w.axis);
        }
        return at;
    }
    void find_runs(int64 convolution)
    {
        const int64 n_taps =
            convolution < job.n_convolutions ? job.convolutions[convolution].n_taps : 0;
        int *const run = run_of[convolution];
        for (int64 j = n - 1; j >= 0; j--) {
            bool follows = j + 1 < n && left_place[j + 1] == left_place[j] + 1 &&
                           right_place[j + 1] == right_place[j] + stride;
            for (int64 t = 0; t < n_taps && follows; t++)
                follows =
                    near_of[convolution][t * n + j + 1] == near_of[convolution][t * n + j] + 1;
            run[j] = follows ? run[j + 1] : int(j + 1);
        }
    }
    int64 rows_in(int64 pixels) const
    {
        return unit == unit_rows ? pixels : pixels / unit * unit_rows;
    }
    // The pixels from a strip's first own pixel to a row's.
    int64 position(int64 j) const
    {
        if (closed || unit == unit_rows) return j - first;
        const int64 units = (j - first - modulo(j - first, unit_rows)) / unit_rows;
        return j - first + units * (unit - unit_rows);
    }
    // The place of a pixel in a row of a table, some lines of an image further on.
    int place(int64 pixel, int64 length, int64 lines) const
    {
        const int64 line_pixels = job.height ? job.line_pixels : length,
                    line = line_numbers(line_pixels, job.padding),
                    y = job.height ? (pixel / line_pixels + lines) % job.height : 0;
        return int(y * line + pixel % line_pixels);
    }
    int neighbour(int64 j, int64 shift, int64 axis) const
    {
        if (closed) return int(job.height ? shifted(j, shift, axis) : modulo(j + shift, n));
        return int(j + shift < 0 || j + shift >= n ? j : j + shift);  // beyond the ends: never used
    }

public:
    // A pixel of an image some pixels further on, on the ring of its line or column.
    int64 shifted(int64 pixel, int64 by, int64 axis) const
    {
        const int64 y = pixel / job.line_pixels, x = pixel % job.line_pixels;
        return axis ? y * job.line_pixels + modulo(x + by, job.line_pixels)
                    : modulo(y + by, job.height) * job.line_pixels + x;
    }
};
}  // namespace
