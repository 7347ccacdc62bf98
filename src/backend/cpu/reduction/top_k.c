/* top_k: the places of the k largest so far are kept in their order, and an element that comes
 * before the last of them is put in its place. A row of C elements costs C comparisons, and log k
 * and k for each that is put in: k log(C / k) of them, if the order is random. */
#include "backend/cpu/shared/convert.h"
#include "core/half.h"

#include <string.h>

enum { CHUNK = 512 };

/* Whether x comes before an earlier element y. */
static bool is_before(float x, float y) {
  return x > y || (x != x && y == y);
}

/* Where an element belongs among `held` others. */
static int64_t place_of(const ac_operand *x, int64_t base, float value, const int32_t *ids,
                        int64_t held) {
  int64_t low = 0, high = held;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (is_before(value, ac_float_read(x->dtype, x->data, (size_t)(base + ids[middle]))))
      high = middle;
    else low = middle + 1;
  }
  return low;
}

static void of_row(const ac_operand *x, int64_t base, int64_t columns, int64_t k, int32_t *ids) {
  float buffer[CHUNK], last = 0;
  int64_t held = 0;
  for (int64_t at = 0; at < columns; at += CHUNK) {
    const int64_t count = ac_smaller(CHUNK, columns - at);
    ac_cpu_widen(x->dtype, ac_element(x->data, x->dtype, base + at), buffer, count);
    for (int64_t j = 0; j < count; j++) {
      if (held == k && !is_before(buffer[j], last)) continue;
      const int64_t place = place_of(x, base, buffer[j], ids, held);
      held = ac_smaller(held + 1, k);
      memmove(ids + place + 1, ids + place, (size_t)(held - 1 - place) * sizeof *ids);
      ids[place] = (int32_t)(at + j);
      last = ac_float_read(x->dtype, x->data, (size_t)(base + ids[held - 1]));
    }
  }
}

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const int64_t columns = ac_columns(x), k = ac_columns(y), bytes = ac_element_bytes(x->dtype);
  for (int64_t i = first; i < last; i++) {
    int32_t *ids = (int32_t *)args->out[1].data + i * k;
    of_row(x, i * columns, columns, k, ids);
    for (int64_t m = 0; m < k; m++)
      memcpy(ac_element(y->data, y->dtype, i * k + m),
             ac_element(x->data, x->dtype, i * columns + ids[m]), (size_t)bytes);
  }
}

static void top_k(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, ac_rows(&args->in[0]), ac_columns(&args->in[0]), range);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  const int64_t columns = ac_columns(dx), k = ac_columns(dy);
  for (int64_t i = first; i < last; i++) {
    const int32_t *ids = (const int32_t *)args->in[1].data + i * k;
    void *row = ac_element(dx->data, dx->dtype, i * columns);
    if (!args->add[0]) memset(row, 0, (size_t)columns * ac_element_bytes(dx->dtype));
    for (int64_t m = 0; m < k; m++) {
      float value = ac_float_read(dy->dtype, dy->data, (size_t)(i * k + m));
      if (args->add[0]) value += ac_float_read(dx->dtype, row, (size_t)ids[m]);
      ac_cpu_narrow(dx->dtype, args->run->mark_flushed, &value, ac_element(row, dx->dtype, ids[m]),
                    1);
    }
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, ac_rows(&args->out[0]), ac_columns(&args->out[0]), gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(top_k) = {.run = top_k};
const ac_cpu_kernel AC_CPU_KERNEL(top_k_gradient) = {.run = gradient};
