/* Samples that are mixed with others: mixup and CutMix. Reading borrows one of a few buffers for
 * the partner, which were made with the dataset; a thread that finds none free waits for one. */
#include "core/error.h"
#include "core/platform/processors.h"
#include "core/random.h"
#include "data/dataset.h"

#include <accrue/pictures.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BUFFERS = 16 };

typedef struct mixer {
  ac_dataset *whole;
  ac_mixing desc;
  int images, labels;
  int64_t classes, shape[3];

  ac_monitor *monitor; /* guards the stack of free buffers */
  char *buffers, *free_buffers[MAX_BUFFERS];
  size_t offset[AC_MAX_FIELDS]; /* of the fields of a sample in a buffer */
  int free_count;
} mixer;

/* ---- what is drawn --------------------------------------------------------------------------- */

/* Counter word 3; apart from the streams of other changes. 256 blocks of four numbers. */
#define MIX_STREAM 0x4D490000u

typedef struct draws {
  const ac_sample_key *key;
  uint32_t used;
  ac_philox_block block;
} draws;

static uint32_t next(draws *d) {
  if (d->used % 4 == 0)
    d->block =
        ac_philox(d->key->seed, (uint32_t)d->key->index, (uint32_t)((uint64_t)d->key->index >> 32),
                  (uint32_t)d->key->epoch, MIX_STREAM + d->used / 4);
  return d->block.v[d->used++ % 4];
}

/* In (0, 1). */
static double uniform(draws *d) {
  return ((double)next(d) + 0.5) * 0x1p-32;
}

static double normal(draws *d) {
  const double radius = sqrt(-2 * log(uniform(d)));
  return radius * cos(2 * 3.14159265358979323846 * uniform(d));
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). The logarithm, as
 * small shapes give numbers below what doubles hold. */
static double log_gamma_variate(draws *d, double shape) {
  enum { ATTEMPTS = 64 }; /* one in a hundred is rejected */
  if (shape < 1) return log_gamma_variate(d, shape + 1) + log(uniform(d)) / shape;
  const double a = shape - 1.0 / 3, b = 1 / sqrt(9 * a);
  for (int i = 0; i < ATTEMPTS; i++) {
    const double x = normal(d), root = 1 + b * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (log(uniform(d)) < x * x / 2 + a - a * v + a * log(v)) return log(a * v);
  }
  return log(shape);
}

static double beta_variate(draws *d, double alpha) {
  const double x = log_gamma_variate(d, alpha), y = log_gamma_variate(d, alpha);
  return 1 / (1 + exp(y - x));
}

typedef struct mixture {
  bool mixed, cut;
  double own; /* share of the sample itself */
  int64_t partner, left, top, width, height;
} mixture;

static int64_t between(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

/* Half a rectangle each way from its centre, as far as the image goes. */
static void draw_rectangle(draws *d, const mixer *m, mixture *x) {
  const int64_t height = m->shape[1], width = m->shape[2];
  const double side = sqrt(1 - x->own);
  const int64_t half_width = (int64_t)((double)width * side) / 2,
                half_height = (int64_t)((double)height * side) / 2;
  const int64_t column = (int64_t)((uint64_t)next(d) * (uint64_t)width >> 32),
                row = (int64_t)((uint64_t)next(d) * (uint64_t)height >> 32);
  x->left = between(column - half_width, 0, width);
  x->top = between(row - half_height, 0, height);
  x->width = between(column + half_width, 0, width) - x->left;
  x->height = between(row + half_height, 0, height) - x->top;
  x->own = 1 - (double)(x->width * x->height) / (double)(width * height);
}

static mixture draw(const mixer *m, const ac_sample_key *key) {
  draws d = {.key = key};
  const ac_mixing *desc = &m->desc;
  mixture x = {.own = 1};
  const double chance = uniform(&d), which = uniform(&d);
  x.partner = (int64_t)(uniform(&d) * (double)m->whole->count);
  x.mixed = chance < desc->probability && (desc->mixup > 0 || desc->cutmix > 0);
  if (!x.mixed) return x;
  x.partner = between(x.partner, 0, m->whole->count - 1);
  x.cut = desc->cutmix > 0 && (desc->mixup <= 0 || which < 0.5);
  x.own = beta_variate(&d, x.cut ? desc->cutmix : desc->mixup);
  if (x.cut) draw_rectangle(&d, m, &x);
  return x;
}

/* ---- reading --------------------------------------------------------------------------------- */

static char *borrow(mixer *m) {
  ac_monitor_lock(m->monitor);
  while (!m->free_count) ac_monitor_wait(m->monitor);
  char *buffer = m->free_buffers[--m->free_count];
  ac_monitor_unlock(m->monitor);
  return buffer;
}

static void give_back(mixer *m, char *buffer) {
  ac_monitor_lock(m->monitor);
  if (!m->free_count) ac_monitor_wake(m->monitor);
  m->free_buffers[m->free_count++] = buffer;
  ac_monitor_unlock(m->monitor);
}

static void mix_images(const mixer *m, const mixture *x, const float *other, float *image) {
  const int64_t channels = m->shape[0], height = m->shape[1], width = m->shape[2];
  const float own = (float)x->own;
  if (!x->cut)
    for (int64_t i = 0; i < channels * height * width; i++)
      image[i] = own * image[i] + (1 - own) * other[i];
  else
    for (int64_t plane = 0; plane < channels; plane++)
      for (int64_t row = 0; row < x->height; row++) {
        const int64_t at = (plane * height + x->top + row) * width + x->left;
        memcpy(image + at, other + at, (size_t)x->width * sizeof *image);
      }
}

static ac_status check_label(const mixer *m, int32_t label, int64_t sample) {
  if (label >= 0 && label < m->classes) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "dataset: label %d of sample %lld is not in [0, %lld)",
                 (int)label, (long long)sample, (long long)m->classes);
}

static ac_status read_partner(mixer *m, const ac_sample_key *key, const mixture *x, float *image,
                              int32_t *label) {
  char *buffer = borrow(m);
  void *fields[AC_MAX_FIELDS];
  for (int f = 0; f < m->whole->field_count; f++) fields[f] = buffer + m->offset[f];
  ac_sample_key other = *key;
  other.index = x->partner;
  const ac_status status = ac_dataset_read(m->whole, &other, fields);
  if (status == AC_OK) {
    mix_images(m, x, fields[m->images], image);
    *label = *(const int32_t *)fields[m->labels];
  }
  give_back(m, buffer);
  return status;
}

static ac_status read_mixed(void *user, const ac_sample_key *key, void *const *fields) {
  mixer *m = user;
  const mixture x = draw(m, key);
  AC_TRY(ac_dataset_read(m->whole, key, fields));
  const int32_t label = *(const int32_t *)fields[m->labels];
  int32_t other = label;
  if (x.mixed) AC_TRY(read_partner(m, key, &x, fields[m->images], &other));
  AC_TRY(check_label(m, label, key->index));
  AC_TRY(check_label(m, other, x.partner));
  float *targets = fields[m->whole->field_count];
  const double spread = m->desc.smoothing / (double)m->classes, kept = 1 - m->desc.smoothing;
  for (int64_t c = 0; c < m->classes; c++)
    targets[c] = (float)(spread + kept * ((c == label ? x.own : 0) + (c == other ? 1 - x.own : 0)));
  return AC_OK;
}

/* ---- making one ------------------------------------------------------------------------------ */

static void close_mixer(void *user) {
  mixer *m = user;
  ac_monitor_free(m->monitor);
  free(m->buffers);
  free(m);
}

static ac_status check(const ac_mixing *d, const ac_dataset *whole) {
  const int images = ac_dataset_find_field(whole, "images");
  if (images < 0 || whole->fields[images].dtype != AC_F32 || !whole->image_shape[0])
    return ac_fail(AC_ERROR_ARGUMENT, "mixing: there is no f32 field images of a known shape");
  if (ac_dataset_label_field(whole) < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "mixing: there is no i32 field labels of one element");
  if (!whole->classes)
    return ac_fail(AC_ERROR_ARGUMENT, "mixing: the dataset does not know its number of classes");
  const double alphas[] = {d->mixup, d->cutmix};
  for (int i = 0; i < 2; i++)
    if (alphas[i] != 0 && !(alphas[i] >= 1e-6 && alphas[i] <= 1000))
      return ac_fail(AC_ERROR_ARGUMENT, "mixing: alpha %g is neither 0 nor in [1e-6, 1000]",
                     alphas[i]);
  if (!(d->probability >= 0 && d->probability <= 1))
    return ac_fail(AC_ERROR_ARGUMENT, "mixing: a probability of %g is not in [0, 1]",
                   d->probability);
  if (!(d->smoothing >= 0 && d->smoothing < 1))
    return ac_fail(AC_ERROR_ARGUMENT, "mixing: a smoothing of %g is not in [0, 1)", d->smoothing);
  return AC_OK;
}

static ac_status allocate(mixer *m) {
  const int processors = ac_processor_count();
  const int count = processors < MAX_BUFFERS ? processors : MAX_BUFFERS;
  size_t bytes = 0;
  for (int f = 0; f < m->whole->field_count; f++) {
    const ac_field *field = &m->whole->fields[f];
    m->offset[f] = bytes;
    bytes += ((size_t)field->elements * ac_dtype_bytes(field->dtype) + 15) / 16 * 16;
  }
  m->monitor = ac_monitor_create();
  m->buffers = bytes <= PTRDIFF_MAX / MAX_BUFFERS ? malloc((size_t)count * bytes) : NULL;
  if (!m->monitor || !m->buffers)
    return ac_fail(AC_ERROR_MEMORY, "mixing: no memory for %d samples", count);
  for (; m->free_count < count; m->free_count++)
    m->free_buffers[m->free_count] = m->buffers + (size_t)m->free_count * bytes;
  return AC_OK;
}

ac_status ac_dataset_mixed(ac_dataset **dataset, ac_dataset *whole, const ac_mixing *mixing) {
  AC_CREATES(dataset);
  AC_REQUIRE(whole);
  ac_mixing d = AC_DESCRIBED(ac_mixing, mixing);
  if (d.probability == 0) d.probability = 1;
  AC_TRY(check(&d, whole));
  mixer *m = calloc(1, sizeof *m);
  if (!m) return ac_fail(AC_ERROR_MEMORY, "mixing: no memory for its description");
  m->whole = whole;
  m->desc = d;
  m->images = ac_dataset_find_field(whole, "images");
  m->labels = ac_dataset_label_field(whole);
  m->classes = whole->classes;
  memcpy(m->shape, whole->image_shape, sizeof m->shape);
  ac_status status = allocate(m);
  if (status == AC_OK)
    status = ac_dataset_with_field(dataset, whole, (ac_field){"targets", AC_F32, m->classes},
                                   read_mixed, close_mixer, m);
  if (status != AC_OK) close_mixer(m);
  return status;
}
