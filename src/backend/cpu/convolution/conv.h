/* The parts of convolutions on the CPU: images laid out so that every product runs over contiguous
 * floats (conv_patch.c), the products (product/indirect.h), and rows of images (conv_row.c). */
#ifndef AC_BACKEND_CPU_CONV_H
#define AC_BACKEND_CPU_CONV_H

#include "backend/cpu/product/indirect.h"

/* ---- patches ----------------------------------------------------------------------------------
 */

/* One axis: output i and tap t meet at position first + i * step + t * spacing of the source. */
typedef struct ac_conv_axis {
  int64_t size; /* of the source */
  int64_t outputs, taps;
  int64_t first, step, spacing;
} ac_conv_axis;

/* After how many taps, `spacing` apart, positions have the same residue modulo the step again. */
static inline int64_t ac_conv_recurrence(int64_t step, int64_t spacing) {
  int64_t divisor = step, rest = spacing;
  while (rest) {
    int64_t next = divisor % rest;
    divisor = rest, rest = next;
  }
  return step / divisor;
}

/* The taps [*first, *end) that meet the source where tap 0 would do so at position `top`. */
static inline void ac_conv_taps_met(const ac_conv_axis *a, int64_t top, int64_t *first,
                                    int64_t *end) {
  *first = top < 0 ? ac_smaller(a->taps, ac_ceil_div(-top, a->spacing)) : 0;
  *end = top < a->size ? ac_smaller(a->taps, ac_ceil_div(a->size - top, a->spacing)) : 0;
}

/* Room for so many floats in whole cache lines. */
static inline int64_t ac_conv_lines(int64_t count) {
  return ac_ceil_div(count, 16) * 16;
}

/* How the part of a source that some outputs need is laid out, see conv_patch.c. */
typedef struct ac_conv_patch {
  ac_conv_axis axis[2];
  int64_t channels;        /* of the source, in a group */
  bool pairs;              /* for ac_dot_convolve: an element is two neighbouring ones of bf16 */
  bool halves;             /* for gradients of weights: an element is one of bf16 */
  int64_t samples, rows;   /* of outputs, at most, in one filling */
  int64_t held;            /* channels at most in one filling */
  int64_t residues[2];     /* planes for each residue of the step that taps have */
  int64_t reach[2];        /* rows and columns of a plane beyond those of the outputs */
  int64_t stride;          /* of a plane's rows, in elements as all that follows */
  bool spread;             /* a row for each tap in place of planes */
  int64_t wide;            /* such a row's elements */
  int64_t pitch;           /* of rows of outputs in a run */
  int64_t sample, plane;   /* distance of samples' parts of a plane, and of planes */
  int64_t line;            /* of lines: channels, or pairs of them */
  int64_t floats, offsets; /* what a filling needs; floats: elements of 32 bits */
} ac_conv_patch;

/* The outputs, and the channels of the source, that a filling is for. */
typedef struct ac_conv_region {
  int64_t sample, samples;
  int64_t row, rows;
  int64_t channel, channels;
} ac_conv_region;

/* Images as they are stored; samples and channels are so many elements apart. */
typedef struct ac_conv_source {
  const void *data;
  ac_dtype dtype;
  int64_t sample, channel;
} ac_conv_source;

#define ac_conv_patch_plan AC_CPU_NAME(ac_conv_patch_plan)
#define ac_conv_patch_offsets AC_CPU_NAME(ac_conv_patch_offsets)
#define ac_conv_patch_fill AC_CPU_NAME(ac_conv_patch_fill)
#define ac_conv_patch_steps AC_CPU_NAME(ac_conv_patch_steps)
#define ac_conv_patch_last AC_CPU_NAME(ac_conv_patch_last)
#define ac_conv_patch_place_of AC_CPU_NAME(ac_conv_patch_place_of)
#define ac_conv_patch_pairs AC_CPU_NAME(ac_conv_patch_pairs)
#define ac_conv_patch_places AC_CPU_NAME(ac_conv_patch_places)
#define ac_conv_read_row AC_CPU_NAME(ac_conv_read_row)
#define ac_conv_read_patches AC_CPU_NAME(ac_conv_read_patches)
#define ac_conv_read_pairs AC_CPU_NAME(ac_conv_read_pairs)
#define ac_conv_read_halves AC_CPU_NAME(ac_conv_read_halves)
#define ac_conv_copy_rows AC_CPU_NAME(ac_conv_copy_rows)
#define ac_conv_store_rows AC_CPU_NAME(ac_conv_store_rows)
#define ac_conv_can_filter AC_CPU_NAME(ac_conv_can_filter)
#define ac_conv_rows_from AC_CPU_NAME(ac_conv_rows_from)
#define ac_conv_filter AC_CPU_NAME(ac_conv_filter)
#define ac_conv_correlate AC_CPU_NAME(ac_conv_correlate)

/* Fills in what follows from axis and channels, for regions of at most `samples` whole images and
 * at most `columns` output positions, but at least one row. Each value will be multiplied with
 * `uses` others for each tap. */
void ac_conv_patch_plan(ac_conv_patch *patch, int64_t samples, int64_t columns, int64_t uses);

/* Where in a filling the values lie that meet tap k of channel c at output position 0: offset[c *
 * taps + k] for the channels held. For pairs it is where the steps of a filling begin. */
void ac_conv_patch_offsets(const ac_conv_patch *patch, int32_t *offset);

void ac_conv_patch_fill(const ac_conv_patch *patch, const ac_conv_source *source,
                        const ac_conv_region *region, void *filling);

/* Pairs are multiplied in steps (product/dot.h), of AC_DOT_PAIRS lines for one tap each or, where
 * the patch is spread out, of as many of its rows. So many are needed for the first `channels`. */
int64_t ac_conv_patch_steps(const ac_conv_patch *patch, int64_t channels);

/* How many pairs of the last of these steps have elements; 0: all. */
int ac_conv_patch_last(const ac_conv_patch *patch, int64_t channels);

/* Which pair of all steps a channel belongs to with a tap, and which half of it. That of an even
 * channel has the next one, if there is one, for its second half. */
typedef struct ac_conv_place {
  int64_t pair, half;
} ac_conv_place;
ac_conv_place ac_conv_patch_place_of(const ac_conv_patch *patch, int64_t channel, int64_t tap);

/* Halves are multiplied in pairs along the outputs: those of a region's samples and rows, in
 * `pitch` columns each; if their number is odd, there is one column too many. Pair i of a region
 * begins place[i] elements after the one that meets a tap at output position 0. */
int64_t ac_conv_patch_pairs(const ac_conv_patch *patch, const ac_conv_region *region);
void ac_conv_patch_places(const ac_conv_patch *patch, const ac_conv_region *region, int32_t *place);

/* How far the pair rows of a step lie apart. */
static inline int64_t ac_conv_patch_distance(const ac_conv_patch *patch) {
  return patch->spread ? patch->wide : patch->line;
}

/* Positions of one run of outputs in a filling: those of one sample, or of all of them where they
 * follow each other without a gap. Runs lie patch->sample apart. */
static inline int64_t ac_conv_runs(const ac_conv_patch *patch, const ac_conv_region *region) {
  bool dense = patch->spread || patch->sample == region->rows * patch->stride;
  return dense ? 1 : region->samples;
}
static inline int64_t ac_conv_run_length(const ac_conv_patch *patch, const ac_conv_region *region) {
  int64_t samples = region->samples / ac_conv_runs(patch, region);
  return samples * region->rows * patch->pitch - patch->pitch + patch->axis[1].outputs;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* y[j] = 0 for j < stride but the elements at, at + step, ... of the source for begin <= j < end.
 */
void ac_conv_read_row(const ac_conv_source *source, int64_t at, int64_t step, int64_t begin,
                      int64_t end, int64_t stride, float *y);

/* y[t * distance + j] = element at + 2 j + t of the source for t < 4 and j < count; 0 unless
 * begin <= 2 j + t < end. */
void ac_conv_read_patches(const ac_conv_source *source, int64_t at, int64_t begin, int64_t end,
                          int64_t count, int64_t distance, float *y);

/* Like ac_conv_read_row, for bf16 in pairs: of an element and that of the next channel, unless
 * there is no `second`. */
void ac_conv_read_pairs(const ac_conv_source *source, int64_t at, bool second, int64_t step,
                        int64_t begin, int64_t end, int64_t stride, uint32_t *y);

/* Like ac_conv_read_row, for bf16 without conversion, and for so many rows one after the other.
 * Their elements lie `distance` apart in the source. */
void ac_conv_read_halves(const ac_conv_source *source, int64_t at, int64_t step, int64_t begin,
                         int64_t end, int64_t rows, int64_t distance, int64_t stride, uint16_t *y);

/* Rows of so many columns, `stride` apart, one after the other into `to`. Where there are others,
 * `with`, both are pairs without second elements, which are then the first ones of these. */
void ac_conv_copy_rows(const float *from, const float *with, int64_t stride, float *to,
                       int64_t rows, int64_t columns);

/* y[at + i * distance + j * step] (+)= c[i * apart + j] + bias for i < rows and j < count. */
void ac_conv_store_rows(const ac_run_state *run, const float *c, int64_t apart, int64_t rows,
                        float bias, bool add, const ac_operand *y, int64_t at, int64_t distance,
                        int64_t step, int64_t count);

/* Rows of outputs of one channel without a patch, which is possible where ac_conv_can_filter.
 * Output j of row i < count meets x[r,t], for rows r < rows of the kernel's and taps t, which is
 * what the axis says of the source's row that begins at element at + i * row_step + r * distance,
 * and zero outside of it. */
typedef struct ac_conv_rows {
  const ac_conv_source *source;
  const ac_conv_axis *axis;
  int64_t at, count, columns, row_step, distance;
  int64_t first, rows;    /* of the kernel's rows */
  int64_t next_x, next_y; /* elements to the image that comes next, of the source and of the other
                             operand, which is fetched ahead; 0: unknown */
} ac_conv_rows;
bool ac_conv_can_filter(const ac_conv_axis *w);

/* Elements from a group's image of a sample to one that will be met later: that of the next sample
 * or, after the last, of the next group's first. */
static inline int64_t ac_conv_next(const ac_operand *x, int64_t groups, int64_t sample) {
  int64_t of_group = x->dim[1] / groups * x->dim[2] * x->dim[3], of_sample = of_group * groups;
  return sample + 1 < x->dim[0] ? of_sample : of_group - sample * of_sample;
}

/* Takes the rows of outputs from `row` on, before `last`, that meet the same rows of the kernel, in
 * an image that begins at element `image` of the source. */
ac_conv_rows ac_conv_rows_from(const ac_conv_axis *axes, const ac_conv_source *source,
                               int64_t image, int64_t row, int64_t last);

/* c[i * columns + j] = bias + sum of weights[r * taps + t] x[r,t] */
void ac_conv_filter(const ac_conv_rows *rows, const float *weights, float bias, float *c);

/* sum[(r * taps + t) * step] += sum over rows i and outputs j of x[r,t] times the element
 * at + i * columns + j of y. */
void ac_conv_correlate(const ac_conv_rows *rows, const ac_operand *y, int64_t at, float *sum,
                       int64_t step);

#endif
