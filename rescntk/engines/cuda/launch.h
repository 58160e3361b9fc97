// The argument of a launch of the GPU kernel. launch_plan.py reads the fields of the record and the
// constants from this file.
#pragma once
#include "../compiled/records.h"

struct Launch {
    Job job;
    // The left signal i and the right signal k are the cases first_row + i and first_column + k.
    int64 first_row, first_column;
    int64 threads, teams;   // the numbers of threads of a team, and of teams of a block
    int64 blocks_per_pair;  // the number of blocks for a pair of signals; each has some offsets
    int64 n_depths;    // the number of requested depths; each block has its own sums for each depth
    int64 team_bytes;  // the bytes of shared memory of a team
};

// The number of pixels that are copied to each end of a strip in shared memory from the other end
// of the ring. So convolutions of five taps need not go around the ring.
constexpr int HALO = 2;

// The largest number of threads of a block. The compiler reserves registers for so many.
constexpr int MOST_THREADS = 512;
