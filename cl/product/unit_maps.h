/* Where the lanes of a sub-group have the elements that a matrix unit multiplies. For UNIT_MMA,
 * UNIT_DPAS, UNIT_WMMA or UNIT_MFMA; there is no guard, as a test includes it for each in turn.
 *
 * Fragments are UNIT_M x 16 of A, 16 x UNIT_N of B and UNIT_M x UNIT_N of sums. Register r of a
 * lane is a pair of A in (A_ROW, A_PAIR), a pair of B in (B_PAIR, B_COLUMN), a sum in (C_ROW,
 * C_COLUMN). */
#define UNIT_PAIRS 8 /* of k's */

#if defined(UNIT_MMA)
/* NVIDIA, compute capability 8.0: PTX ISA, mma.m16n8k16 with floating point type. */
#define UNIT_LANES 32
#define UNIT_M 16
#define UNIT_N 8
#define A_ROW(lane, r) ((lane) / 4 + (r) % 2 * 8)
#define A_PAIR(lane, r) ((lane) % 4 + (r) / 2 * 4)
#define B_PAIR(lane, r) ((lane) % 4 + (r)*4)
#define B_COLUMN(lane, r) ((lane) / 4)
#define C_ROW(lane, r) ((lane) / 4 + (r) / 2 * 8)
#define C_COLUMN(lane, r) ((lane) % 4 * 2 + (r) % 2)
#elif defined(UNIT_DPAS)
/* Intel, sub-groups of 8: cl_intel_subgroup_matrix_multiply_accumulate, K = 16. */
#define UNIT_LANES 8
#define UNIT_M 8
#define UNIT_N 8
#define A_ROW(lane, r) (r)
#define A_PAIR(lane, r) (lane)
#define B_PAIR(lane, r) (r)
#define B_COLUMN(lane, r) (lane)
#define C_ROW(lane, r) (r)
#define C_COLUMN(lane, r) (lane)
#elif defined(UNIT_WMMA)
/* AMD, gfx11 with 32 lanes: V_WMMA_F32_16X16X16. Both halves of the lanes hold A and B. */
#define UNIT_LANES 32
#define UNIT_COPIES 2
#define UNIT_M 16
#define UNIT_N 16
#define A_ROW(lane, r) ((lane) % 16)
#define A_PAIR(lane, r) (r)
#define B_PAIR(lane, r) (r)
#define B_COLUMN(lane, r) ((lane) % 16)
#define C_ROW(lane, r) ((r)*2 + (lane) / 16)
#define C_COLUMN(lane, r) ((lane) % 16)
#elif defined(UNIT_MFMA)
/* AMD, gfx90a and gfx94x: V_MFMA_F32_16X16X16. */
#define UNIT_LANES 64
#define UNIT_M 16
#define UNIT_N 16
#define A_ROW(lane, r) ((lane) % 16)
#define A_PAIR(lane, r) ((lane) / 16 * 2 + (r))
#define B_PAIR(lane, r) ((lane) / 16 * 2 + (r))
#define B_COLUMN(lane, r) ((lane) % 16)
#define C_ROW(lane, r) ((lane) / 16 * 4 + (r))
#define C_COLUMN(lane, r) ((lane) % 16)
#endif

#ifndef UNIT_COPIES
#define UNIT_COPIES 1
#endif
/* Registers of a lane. */
#define A_WORDS (UNIT_M * UNIT_PAIRS * UNIT_COPIES / UNIT_LANES)
#define B_WORDS (UNIT_N * UNIT_PAIRS * UNIT_COPIES / UNIT_LANES)
#define SUMS (UNIT_M * UNIT_N / UNIT_LANES)
