// Common beginning of the attention kernels for Hopper GPUs, after tiled.cuh: products by a warpgroup of four warps
// (`wgmma`, sm_90a alone), whose operands are read from swizzled tiles.
//
// A panel is a matrix of 64 columns in shared memory: rows of 128 bytes without padding, sixteen bytes at chunk c of row
// r stored at chunk c xor (r mod 8). It begins at a multiple of 1,024 bytes. A tile of D columns is D / 64 panels, one
// after the other. In a product of 64 × 64 a thread holds, of the sixteen rows of its warp, what it holds of 16 × 8 sums
// of `multiply_add`, eight times.

#define WARPGROUP 128

// Copies ROWS rows of D columns to a tile, asynchronously, by THREADS threads; rows from n_rows and columns from
// n_columns become 0.
template <int D, int ROWS, int THREADS>
__device__ __forceinline__ void stage_panels(bf16 *tile, Rows<const bf16> from, int n_rows, int n_columns) {
    constexpr int CHUNKS = D / 8, STEP = THREADS / CHUNKS;
    const int first = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
    const bf16 *source = from.at + chunk * 8;
    bf16 *panel = tile + chunk / 8 * ROWS * 64;
    const int last = chunk * 8 < n_columns ? n_rows : 0;
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP) {
        const int row = first + i;
        if (ROWS % STEP != 0 && row >= ROWS) break;
        const bool real = row < last;
        copy_async(panel + row * 64 + (chunk % 8 ^ row % 8) * 8, real ? source + row * from.stride : from.at, real);
    }
}

// ---- A ring of tiles: every warp copies its part of a tile two tiles ahead, and waits for a tile only where it reads it.
// Warpgroups may be a tile apart, so that one computes weights while another multiplies. ----

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but this thread's last group of copies are done, and makes them visible to products.
__device__ __forceinline__ void wait_group_before() {
    asm volatile("cp.async.wait_group 1; fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void initialise_barrier(u64 *barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive_at(u64 *barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(shared_address(barrier)) : "memory");
}
// True if the phase of this parity is complete; waits for some time.
__device__ __forceinline__ bool is_complete(u64 *barrier, u32 parity) {
    u32 done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return done;
}

// Tiles of a ring: four if warpgroups share it, so that they may be a tile apart.
#define SLOTS_OF(WARPGROUPS) (WARPGROUPS == 1 ? 3 : 4)

// Barriers of the slots: tile t is in slot t mod SLOTS. A phase is complete when every warp has arrived.
template <int SLOTS> struct Ring {
    u64 *full, *empty;

    __device__ __forceinline__ Ring(void *at) : full(static_cast<u64 *>(at)), empty(full + SLOTS) {
        if (threadIdx.x < 2 * SLOTS) initialise_barrier(full + threadIdx.x, blockDim.x / WARP);
    }
    // Waits until the slot of a tile is free.
    __device__ __forceinline__ void wait_empty(int tile) const {
        while (!is_complete(empty + tile % SLOTS, tile / SLOTS + 1 & 1)) {}
    }
    __device__ __forceinline__ void wait_full(int tile) const {
        while (!is_complete(full + tile % SLOTS, tile / SLOTS & 1)) {}
    }
    __device__ __forceinline__ void arrive(u64 *barriers, int tile) const {
        __syncwarp();
        if (threadIdx.x % WARP == 0) arrive_at(barriers + tile % SLOTS);
    }
    // Starts tile + 2 by stage(), announces tile + 1, and waits for `tile`, of `n` tiles. At the start a warp has copied
    // tiles 0 and 1 in two groups and announced tile 0.
    template <typename Stage> __device__ __forceinline__ void next(int tile, int n, const Stage &stage) const {
        if (tile + 2 < n) {
            wait_empty(tile + 2);
            stage(tile + 2);
        }
        commit_copies();
        wait_group_before();
        if (tile + 1 < n) arrive(full, tile + 1);
        wait_full(tile);
    }
    template <typename Stage> __device__ __forceinline__ void start(int n, const Stage &stage) const {
        if (n > 0) stage(0);
        commit_copies();
        if (n > 1) stage(1);
        commit_copies();
        wait_group_before();
        // Also publishes the barriers and what was copied before.
        __syncthreads();
        if (n > 0) arrive(full, 0);
    }
};

// Descriptor of a panel from row `at`, a multiple of 8: rows in groups of eight, 1,024 bytes apart.
__device__ __forceinline__ u64 panel_descriptor(const bf16 *at) {
    return u64((shared_address(at) & 0x3ffff) >> 4) | u64(64) << 16 | u64(64) << 32 | u64(1) << 62;
}
// The same panel sixteen columns on the right, and sixteen rows below.
#define NEXT_COLUMNS 2
#define NEXT_ROWS 128

// Sixteen rows of the warp, from `row` of a tile of ROWS rows, as left operands.
template <int D, int ROWS> __device__ __forceinline__ void load_panels(u32 (&out)[D / 16][4], const bf16 *tile, int row) {
    const int lane = threadIdx.x % WARP, own = row + lane % 16;
#pragma unroll
    for (int inner = 0; inner < D / 16; inner++) {
        const int chunk = inner % 4 * 2 + lane / 16;
        load_matrices(out[inner], tile + inner / 4 * ROWS * 64 + own * 64 + (chunk ^ own % 8) * 8);
    }
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until all but the last PENDING groups of products are done.
template <int PENDING> __device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps uses of sums behind the wait before this.
template <int COUNT> __device__ __forceinline__ void settle(float (&sums)[COUNT][4]) {
#pragma unroll
    for (int i = 0; i < COUNT * 4; i++) asm volatile("" : "+f"(sums[i / 4][i % 4])::"memory");
}

#define SUMS_OF(I) "+f"(sums[I][0]), "+f"(sums[I][1]), "+f"(sums[I][2]), "+f"(sums[I][3])
#define ALL_SUMS SUMS_OF(0), SUMS_OF(1), SUMS_OF(2), SUMS_OF(3), SUMS_OF(4), SUMS_OF(5), SUMS_OF(6), SUMS_OF(7)
#define SUM_NAMES                                                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,"  \
    "%31}"

// sums (= or +=) A·Bᵀ for 64 rows of A and of B, sixteen columns of each; sums are overwritten if `add` is 0. A is in
// shared memory also where it is the same in every pass of a loop: in registers, NVRTC 13.0 gives them to the other left
// operand of the pass, and the next pass reads that.
__device__ __forceinline__ void product_of_panels(float (*sums)[4], u64 a, u64 b, int add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " SUM_NAMES
                 ", %32, %33, p, 1, 1, 0, 0; }"
                 : ALL_SUMS
                 : "l"(a), "l"(b), "r"(add));
}
// sums += A·B for 64 × 16 values of A in registers, sixteen rows and 64 columns of B.
__device__ __forceinline__ void product_with_columns(float (*sums)[4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " SUM_NAMES ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : ALL_SUMS
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
