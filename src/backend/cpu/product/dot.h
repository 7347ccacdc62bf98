/* Products of bf16 by the instructions that CPUs have for them. Each of these rounds, orders and
 * flushes in a way of its own: a numeric class. Operands are packed in the same way for all
 * classes, in pairs of neighbours along k. A matrix product's bits depend only on its class and
 * operands, not on blocks or threads. A convolution's steps are those of its patch
 * (backend/cpu/convolution/conv.h). */
#ifndef AC_BACKEND_CPU_PRODUCT_DOT_H
#define AC_BACKEND_CPU_PRODUCT_DOT_H

#include <stdbool.h>
#include <stdint.h>

/* A strip of op(A) is so many rows, one of op(B) so many columns. A step is so much of k; k is
 * filled up with zeros to whole steps. */
enum { AC_DOT_STRIP = 32, AC_DOT_STEP = 32, AC_DOT_PAIRS = AC_DOT_STEP / 2 };

/* Cache lines that are needed soon: `count` of them, in rows of `across` that begin `distance`
 * bytes apart; the next one is number `column` of the row that begins at `at`. */
typedef struct ac_dot_lines {
  const char *at;
  int64_t distance, across, column, count;
} ac_dot_lines;

/* A product prefetches a few of these with each of its steps: many at once would delay its own
 * reads. */
enum { AC_DOT_LINE = 64 };
typedef struct ac_dot_fetch {
  ac_dot_lines written, read[2];
  int64_t each; /* at a time */
} ac_dot_fetch;

/* Before the first of so many times. `fetch` may be NULL. */
static inline void ac_dot_fetch_in(ac_dot_fetch *fetch, int64_t times) {
  if (!fetch) return;
  const int64_t all = fetch->written.count + fetch->read[0].count + fetch->read[1].count;
  fetch->each = (all + times - 1) / times;
}

static inline const char *ac_dot_next_line(ac_dot_lines *lines) {
  const char *line = lines->at + lines->column * AC_DOT_LINE;
  lines->count--;
  if (++lines->column == lines->across) lines->column = 0, lines->at += lines->distance;
  return line;
}

static inline void ac_dot_fetch_some(ac_dot_fetch *fetch) {
  for (int64_t i = 0; fetch && i < fetch->each; i++) {
    if (fetch->written.count) __builtin_prefetch(ac_dot_next_line(&fetch->written), 1, 3);
    else if (fetch->read[0].count) __builtin_prefetch(ac_dot_next_line(&fetch->read[0]), 0, 2);
    else if (fetch->read[1].count) __builtin_prefetch(ac_dot_next_line(&fetch->read[1]), 0, 2);
    else return;
  }
}

/* Sums of products of two strips, for `rows` rows and `columns` columns. There may be more of both
 * in memory, and these may be computed as well.
 *
 *   sums[row][column] = or += sum over k < steps * AC_DOT_STEP of A[row][k] B[k][column]
 *
 * A pair holds the elements of k and k + 1 (k even), the first in its lower half.
 *
 *   a    [steps][AC_DOT_STRIP][AC_DOT_PAIRS]: pairs of a row next to each other
 *   b    [steps][AC_DOT_PAIRS][AC_DOT_STRIP]: pairs of a column beneath each other
 *   sums [AC_DOT_STRIP][distance], aligned to 64 bytes as a and b are; the distance is a
 *        multiple of AC_DOT_STRIP
 *
 * `fetch` may be NULL. */
typedef void ac_dot_multiply(int64_t steps, int rows, int columns, const uint32_t *a,
                             const uint32_t *b, float *sums, int64_t distance, bool add,
                             ac_dot_fetch *fetch);

enum { AC_DOT_LANES = AC_DOT_STRIP / 2 };

/* Where op(B) of a convolution lies, not packed, in a patch of pairs: pair row p of a step is the
 * 32-bit elements from at + offset[step] + p * distance on, at any address, one for each column;
 * from column AC_DOT_LANES on they begin `second` elements after the first. It meets step number
 * of[step] of op(A), or the same step if `of` is NULL. In the last step only the first `pairs` are
 * not zeros, and a class may leave out the rest, also in its emulation; 0: none is left out. */
typedef struct ac_dot_patch {
  const uint32_t *at;
  const int32_t *offset;
  int64_t distance;
  const int32_t *of;
  int pairs;
  int64_t second;
} ac_dot_patch;

static inline int64_t ac_dot_step_of(const ac_dot_patch *b, int64_t step) {
  return b->of ? b->of[step] : step;
}

static inline int ac_dot_pairs_of(const ac_dot_patch *b, int64_t step, int64_t steps) {
  return b->pairs && step + 1 == steps ? b->pairs : AC_DOT_PAIRS;
}

/* Elements from the first column to another. */
static inline int64_t ac_dot_column_in(const ac_dot_patch *b, int column) {
  return column < AC_DOT_LANES ? column : b->second + column - AC_DOT_LANES;
}

/* The same for such an op(B). Of no more than AC_DOT_LANES columns at most so many are computed and
 * read, else AC_DOT_STRIP. */
typedef void ac_dot_convolve(int64_t steps, int rows, int columns, const uint32_t *a,
                             const ac_dot_patch *b, float *sums, int64_t distance, bool add);

/* Where op(A) of a convolution's weight gradient lies, not packed, in a patch of halves: pair p of
 * row i, counted over all steps, is the two elements from at + offset[i] + place[p] on. */
typedef struct ac_dot_image {
  const uint16_t *at;
  const int32_t *offset, *place;
} ac_dot_image;

/* The same for such an op(A). It reads and computes only the rows that are asked for. */
typedef void ac_dot_correlate(int64_t steps, int rows, int columns, const ac_dot_image *a,
                              const uint32_t *b, float *sums, int64_t distance, bool add);

/* A numeric class, and what computes it here. The emulation gives the same bits everywhere, slowly.
 *
 * In all of them subnormal operands and results are zeros of the same sign. a and b are the
 * elements of a pair of op(A) and one of op(B), s is the sum:
 *
 *   vdpbf16ps  s = fma(a0, b0, fma(a1, b1, s)), pair after pair
 *   tiles      e = fma(a0, b0, e) and o = fma(a1, b1, o), both from zero, over the pairs of a step;
 *              s = s + (e + o)
 *   bfmmla     s = s + (a0 b0 + a1 b1), pair after pair, everything rounded to odd
 *
 * Sources: Intel's Software Developer's Manual, vol. 2, VDPBF16PS and TDPBF16PS; Arm's Architecture
 * Reference Manual, BFDotAdd() where FPCR.EBF is 0. */
typedef struct ac_dot_class {
  const char *name, *text;
  ac_dot_multiply *multiply;
  ac_dot_convolve *convolve;
  ac_dot_correlate *correlate;       /* NULL: op(A) is better packed */
  void (*begin)(void), (*end)(void); /* ac_dot_begin, ac_dot_end; may be NULL */
  /* So many steps of a strip of op(A), or a few less, are multiplied with each strip of op(B)
   * before the next ones, so that they stay in the first-level cache; 0: all. */
  int steps;
  bool emulated;
} ac_dot_class;

/* Around products in a thread. They nest: around many of them they are called once more, so that
 * each of these finds the CPU ready. `class` may be NULL. */
static inline void ac_dot_begin(const ac_dot_class *class) {
  if (class && class->begin) class->begin();
}
static inline void ac_dot_end(const ac_dot_class *class) {
  if (class && class->end) class->end();
}

/* The best class that this CPU and its system allow and that is faster here than products of
 * floats, or NULL. A `name` asks for one class: it is emulated if this machine does not have it.
 * For "widened" and unknown names the result is NULL. */
const ac_dot_class *ac_dot_choose(const char *name);

/* Class `index` in hardware, if this machine has it, and emulated; false after the last. */
bool ac_dot_class_at(int index, const ac_dot_class **hardware, const ac_dot_class **emulation);

/* ---- the parts ------------------------------------------------------------------------------- */

ac_dot_multiply ac_dot_tiles_emulated, ac_dot_vdpbf16ps_emulated, ac_dot_bfmmla_emulated;
ac_dot_convolve ac_dot_tiles_emulated_convolve, ac_dot_vdpbf16ps_emulated_convolve,
    ac_dot_bfmmla_emulated_convolve;

#ifdef AC_CPU_HAVE_DOT_TILES
bool ac_dot_tiles_available(void); /* asks the system for them */
void ac_dot_tiles_begin(void);
void ac_dot_tiles_end(void);
ac_dot_multiply ac_dot_tiles;
ac_dot_convolve ac_dot_tiles_convolve;
#endif
#ifdef AC_CPU_HAVE_DOT_VDPBF16PS
bool ac_dot_vdpbf16ps_available(void);
bool ac_dot_vdpbf16ps_pays(void);
ac_dot_multiply ac_dot_vdpbf16ps;
ac_dot_convolve ac_dot_vdpbf16ps_convolve;
ac_dot_correlate ac_dot_vdpbf16ps_correlate;
#endif
#ifdef AC_CPU_HAVE_DOT_BFMMLA
bool ac_dot_bfmmla_available(void);
ac_dot_multiply ac_dot_bfmmla;
ac_dot_convolve ac_dot_bfmmla_convolve;
#endif

#endif
