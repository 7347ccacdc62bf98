/* Resampling of an axis: value i of n is the mean of the values around (i + 0.5) * from / n, by the
 * cubic of Keys (1981) with a = -0.5; if there are fewer values than before, the cubic is wider by
 * that factor, so that nothing is left out. Weights of what the axis does not have are 0, and the
 * others make 1. This is what Pillow and PyTorch's interpolate(antialias=True) do. */
#include "program/image_positions.h"

#include "common/message.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double cubic(double x) {
  x = fabs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/* An axis of `count` values that are `stride` floats apart; each is `width` floats. */
typedef struct axis {
  int64_t count, stride;
} axis;

static void resample_axis(const float *from, axis of, float *to, axis into, int64_t width) {
  const double scale = (double)of.count / (double)into.count, wide = scale > 1 ? scale : 1;
  for (int64_t i = 0; i < into.count; i++) {
    const double centre = ((double)i + 0.5) * scale;
    int64_t first = (int64_t)(centre - 2 * wide + 0.5), end = (int64_t)(centre + 2 * wide + 0.5);
    double total = 0;
    if (centre - 2 * wide + 0.5 < 0) first = 0;
    if (end > of.count) end = of.count;
    for (int64_t j = first; j < end; j++) total += cubic(((double)j - centre + 0.5) / wide);
    for (int64_t c = 0; c < width; c++) {
      double sum = 0;
      for (int64_t j = first; j < end; j++)
        sum += cubic(((double)j - centre + 0.5) / wide) * from[j * of.stride + c];
      to[i * into.stride + c] = (float)(sum / total);
    }
  }
}

/* [rows, columns, width], first along the rows, then along the columns. `room` holds from.rows *
 * to.columns vectors. */
static void resample(const float *table, patch_grid from, float *made, patch_grid to, int64_t width,
                     float *room) {
  for (int64_t y = 0; y < from.rows; y++)
    resample_axis(table + y * from.columns * width, (axis){from.columns, width},
                  room + y * to.columns * width, (axis){to.columns, width}, width);
  for (int64_t x = 0; x < to.columns; x++)
    resample_axis(room + x * width, (axis){from.rows, to.columns * width}, made + x * width,
                  (axis){to.rows, to.columns * width}, width);
}

int image_positions_resample(float **table, ac_model_file *file, const char *path, const char *name,
                             patch_grid from, patch_grid to, int64_t width) {
  const int index = ac_model_file_find(file, name);
  const ac_model_tensor *t = ac_model_file_tensor(file, index);
  const int64_t count = 1 + from.rows * from.columns;
  if (!t || t->rank != 3 || t->shape[1] != count || t->shape[2] != width)
    return fail("%s has no tensor %s [1, %" PRId64 ", %" PRId64 "]", path, name, count, width);
  float *all = malloc((size_t)(count * width) * sizeof *all),
        *room = malloc((size_t)(from.rows * to.columns * width) * sizeof *room),
        *made = malloc((size_t)((1 + to.rows * to.columns) * width) * sizeof *made);
  int status = all && room && made ? STATUS_CONTINUE : fail("out of memory");
  if (status == STATUS_CONTINUE && ac_model_file_read(file, index, 0, count * width, all) != AC_OK)
    status = fail_library();
  if (status == STATUS_CONTINUE) {
    memcpy(made, all, (size_t)width * sizeof *made);
    resample(all + width, from, made + width, to, width, room);
    *table = made;
    made = NULL;
  }
  free(all);
  free(room);
  free(made);
  return status;
}
