/* Samples that are mixed with others: mixup and CutMix. Reading borrows a block of a pool for the
 * partner. */
#include "core/error.h"
#include "core/random.h"
#include "data/dataset.h"
#include "data/pool.h"

#include <accrue/pictures.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct mixer {
  ac_dataset *whole;
  ac_mixing desc;
  int images, labels;
  bool bytes; /* images are u8 */
  int64_t classes, shape[3];
  ac_pool *pool;                /* of samples; NULL: none is mixed */
  size_t offset[AC_MAX_FIELDS]; /* of the fields of a sample in a block */
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

static void average(const mixer *m, float own, const void *other, void *image) {
  const int64_t values = m->shape[0] * m->shape[1] * m->shape[2];
  const float *f = other;
  const uint8_t *b = other;
  float *floats = image;
  uint8_t *bytes = image;
  if (m->bytes)
    for (int64_t i = 0; i < values; i++)
      bytes[i] = (uint8_t)(own * (float)bytes[i] + (1 - own) * (float)b[i] + 0.5f);
  else
    for (int64_t i = 0; i < values; i++) floats[i] = own * floats[i] + (1 - own) * f[i];
}

static void cut(const mixer *m, const mixture *x, const char *other, char *image) {
  const int64_t height = m->shape[1], width = m->shape[2];
  const size_t size = m->bytes ? 1 : sizeof(float);
  for (int64_t plane = 0; plane < m->shape[0]; plane++)
    for (int64_t row = 0; row < x->height; row++) {
      const size_t at = (size_t)((plane * height + x->top + row) * width + x->left) * size;
      memcpy(image + at, other + at, (size_t)x->width * size);
    }
}

static ac_status check_label(const mixer *m, int32_t label, int64_t sample) {
  if (label >= 0 && label < m->classes) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "dataset: label %d of sample %lld is not in [0, %lld)",
                 (int)label, (long long)sample, (long long)m->classes);
}

static ac_status read_partner(mixer *m, const ac_sample_key *key, const mixture *x, void *image,
                              int32_t *label) {
  char *block = ac_pool_borrow(m->pool);
  void *fields[AC_MAX_FIELDS];
  for (int f = 0; f < m->whole->field_count; f++) fields[f] = block + m->offset[f];
  ac_sample_key other = *key;
  other.index = x->partner;
  const ac_status status = ac_dataset_read(m->whole, &other, fields);
  if (status == AC_OK) {
    if (x->cut) cut(m, x, fields[m->images], image);
    else average(m, (float)x->own, fields[m->images], image);
    *label = *(const int32_t *)fields[m->labels];
  }
  ac_pool_return(m->pool, block);
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
  ac_pool_free(m->pool);
  free(m);
}

static ac_status check(const ac_mixing *d, const ac_dataset *whole) {
  const int images = ac_dataset_find_field(whole, "images");
  const ac_dtype dtype = images < 0 ? AC_I32 : whole->fields[images].dtype;
  if ((dtype != AC_F32 && dtype != AC_U8) || !whole->image_shape[0])
    return ac_fail(AC_ERROR_ARGUMENT,
                   "mixing: there is no f32 or u8 field images of a known shape");
  if (ac_dataset_label_field(whole) < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "mixing: there is no i32 field labels of one element");
  if (d->classes < 0 || (!d->classes && !whole->classes))
    return ac_fail(AC_ERROR_ARGUMENT, "mixing: the dataset does not know its number of classes; "
                                      "give it");
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
  uint64_t bytes = 0;
  for (int f = 0; f < m->whole->field_count; f++) {
    const ac_field *field = &m->whole->fields[f];
    m->offset[f] = (size_t)bytes;
    bytes += ((uint64_t)field->elements * ac_dtype_bytes(field->dtype) + 15) / 16 * 16;
  }
  if (m->desc.mixup <= 0 && m->desc.cutmix <= 0) return AC_OK;
  return ac_pool_create(&m->pool, ac_pool_usual_count(), bytes, "mixing");
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
  m->bytes = whole->fields[m->images].dtype == AC_U8;
  m->classes = d.classes ? d.classes : whole->classes;
  memcpy(m->shape, whole->image_shape, sizeof m->shape);
  ac_status status = allocate(m);
  if (status == AC_OK)
    status = ac_dataset_with_field(dataset, whole, (ac_field){"targets", AC_F32, m->classes},
                                   read_mixed, close_mixer, m);
  if (status != AC_OK) close_mixer(m);
  else (*dataset)->bytes = ac_pool_bytes(m->pool);
  return status;
}
