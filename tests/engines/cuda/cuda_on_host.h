// CUDA on the host: a kernel's threads as fibers, so that its very text runs without a GPU.
//
// A block's fibers take turns. One that comes to a barrier leaves its value and lets the next fiber
// run. When it runs again, all others have come to the same barrier. Threads that have parted are
// an error here, where a GPU would hang or return garbage.

// Few headers: reading them would take longer than compiling a kernel.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <setjmp.h>
#include <ucontext.h>

#define __CUDACC_RTC__
#define __host__
#define __grid_constant__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __constant__ static

using std::atan;
using std::fabs;
using std::frexp;
using std::ldexp;
using std::sqrt;

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};

namespace host
{
struct Fiber {
    ucontext_t context;  // where it begins
    jmp_buf place;       // where it goes on: unlike a context, without asking the kernel
    double left[2];      // what it left at the last two meetings
    int meetings;        // how many it has come to
    char kind;           // of the last one
    bool begun, done;
};

static struct {
    unsigned x;
} thread, block, dim;       // threadIdx, blockIdx, blockDim
static Fiber fibers[1024];  // of the block that runs
static unsigned count;
static unsigned step;  // from one that runs to the next: forwards, or around to the one before
static unsigned running;
static ucontext_t home;
static bool parted;
static int checked;     // meetings that all have come to
static double *memory;  // shared by a block
static void (*body)();

static void go_to(unsigned number)
{
    running = number;
    thread.x = number;
    if (fibers[number].begun) _longjmp(fibers[number].place, 1);
    fibers[number].begun = true;
    setcontext(&fibers[number].context);
}

static void resume(unsigned number)
{
    if (number != running && !_setjmp(fibers[running].place)) go_to(number);
}

static void finish()
{
    body();
    fibers[running].done = true;
    for (unsigned k = 1; k < count; ++k) {
        const unsigned number = (running + k * step) % count;
        if (!fibers[number].done) go_to(number);
    }
    setcontext(&home);
}

// Leave a value, wait for all others, and return the meeting's number.
static int meet(char kind, double value)
{
    const unsigned own = running;
    Fiber &fiber = fibers[own];
    fiber.left[fiber.meetings % 2] = value;
    fiber.kind = kind;
    const int meeting = fiber.meetings++;
    resume((own + step) % count);
    if (meeting == checked) {  // the first that goes on: all others wait at the same place
        ++checked;
        for (unsigned k = 0; k < count; ++k)
            parted = parted || fibers[k].meetings != meeting + 1 || fibers[k].kind != kind;
    }
    return meeting;
}

static double from(int meeting, unsigned lane)
{
    return fibers[lane].left[meeting % 2];
}

// Fill memory with bytes that are NaN as numbers, so that reading it before writing shows.
static void spoil(void *at, size_t size)
{
    memset(at, 0xff, size);
}

// Run a grid. Every second block has its threads in reverse order: what they write too early or
// read too late for one order is seen in the other.
static int run(long long wanted, int threads, size_t shared, void (*kernel)())
{
    constexpr size_t stack = 1 << 18;
    static char *const stacks = (char *)malloc(1024 * stack);
    parted = false;
    body = kernel;
    dim.x = threads;
    count = threads;
    memory = (double *)malloc(shared + sizeof(double));
    for (long long number = 0; number < wanted; ++number) {
        spoil(memory, shared);
        block.x = (unsigned)number;
        step = number % 2 ? count - 1 : 1;
        for (unsigned k = 0; k < count; ++k) {
            Fiber &fiber = fibers[k];
            fiber.meetings = fiber.kind = 0;
            fiber.begun = fiber.done = false;
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = stacks + k * stack;
            fiber.context.uc_stack.ss_size = stack;
            fiber.context.uc_link = nullptr;
            makecontext(&fiber.context, finish, 0);
        }
        checked = 0;
        running = number % 2 ? count - 1 : 0;
        thread.x = running;
        fibers[running].begun = true;
        swapcontext(&home, &fibers[running].context);
    }
    free(memory);
    return parted;
}

// Call a kernel with arguments given by their addresses.
template <class... A, size_t... K>
static void call(void (*kernel)(A...), void **arguments, std::index_sequence<K...>)
{
    kernel(*(std::remove_reference_t<A> *)arguments[K]...);
}
template <class... A>
static void call(void (*kernel)(A...), void **arguments)
{
    call(kernel, arguments, std::index_sequence_for<A...>());
}
}  // namespace host

#define threadIdx host::thread
#define blockIdx host::block
#define blockDim host::dim

static void __syncthreads()
{
    host::meet('b', 0);
}
static bool __syncthreads_or(bool value)
{
    const int meeting = host::meet('o', value);
    bool any = false;
    for (unsigned thread = 0; thread < host::count; ++thread)
        any = any || host::from(meeting, thread) != 0;
    return any;
}
