/* Images that change each time they are read; dataset.h has the formulas.
 *
 * A change of geometry needs the image as it was, so reading borrows a block of a pool. Bytes are
 * changed as floats in such a block. A pixel of the result costs a few operations; a sample costs
 * three calls of Philox more. */
#include "core/error.h"
#include "core/random.h"
#include "data/dataset.h"
#include "data/picture_geometry.h"
#include "data/pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct augmenter {
  ac_dataset *whole;
  ac_augmentation desc;
  int images, masks;      /* the fields; masks -1: there are none */
  int64_t values;         /* of an image */
  bool bytes;             /* it is u8 */
  bool moves;             /* anything but erasing and normalising is on */
  float *factor, *offset; /* by channel: factor * pixel + offset; NULL: not normalised */
  ac_pool *pool;          /* of an image in floats, and of bytes one more; NULL: none is needed */
} augmenter;

/* ---- what is drawn --------------------------------------------------------------------------- */

/* What happens to one image. Each number has a place in the stream of its own, so that switching
 * one change on leaves the others as they were. */
typedef struct change {
  int64_t dx, dy;
  bool flip;
  float cosine, sine, scale;                      /* of the turn */
  int64_t left, top, erased_width, erased_height; /* 0 x 0: nothing is erased */
} change;

/* Counter word 3; apart from the streams of dropout, shuffling and windows, which share the key. An
 * epoch beyond 2^32 begins the numbers anew. */
#define AUGMENT_STREAM 0x41470000u

static int64_t draw_below(uint32_t bits, int64_t count) {
  return (int64_t)((uint64_t)bits * (uint64_t)count >> 32);
}

static int64_t between(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

static void draw_rectangle(change *c, const ac_augmentation *desc, const uint32_t *bits) {
  double area =
      desc->erase_area * (double)ac_uniform24(bits[1]) * (double)desc->height * (double)desc->width;
  double aspect = pow(3, 2 * (double)ac_uniform24(bits[2]) - 1); /* height / width */
  c->erased_height = between(llround(sqrt(area * aspect)), 1, desc->height);
  c->erased_width = between(llround(sqrt(area / aspect)), 1, desc->width);
  c->top = draw_below(bits[3], desc->height - c->erased_height + 1);
  c->left = draw_below(bits[4], desc->width - c->erased_width + 1);
}

static change draw(const ac_augmentation *desc, const ac_sample_key *key) {
  uint32_t bits[12];
  for (uint32_t b = 0; b < 3; b++) {
    ac_philox_block block =
        ac_philox(key->seed, (uint32_t)key->index, (uint32_t)((uint64_t)key->index >> 32),
                  (uint32_t)key->epoch, AUGMENT_STREAM + b);
    memcpy(bits + 4 * b, block.v, sizeof block.v);
  }
  double angle =
      desc->rotation * (2 * (double)ac_uniform24(bits[3]) - 1) * (3.14159265358979323846 / 180);
  change c = {.dx = draw_below(bits[0], 2 * desc->shift + 1) - desc->shift,
              .dy = draw_below(bits[1], 2 * desc->shift + 1) - desc->shift,
              .flip = desc->flip && bits[2] >> 31,
              .cosine = (float)cos(angle),
              .sine = (float)sin(angle),
              .scale = (float)(1 + desc->scaling * (2 * (double)ac_uniform24(bits[4]) - 1))};
  if ((double)ac_uniform24(bits[5]) < desc->erase_probability) draw_rectangle(&c, desc, bits + 5);
  return c;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* A shift, and perhaps a mirror: whole pixels. */
static void shift(const ac_augmentation *desc, const change *c, const float *from, float *to) {
  float fill = (float)desc->fill;
  for (int64_t row = 0; row < desc->channels * desc->height; row++, to += desc->width) {
    int64_t y = row % desc->height - c->dy;
    const float *line = from + (row - c->dy) * desc->width;
    for (int64_t x = 0; x < desc->width; x++) {
      int64_t u = x - c->dx;
      bool inside = y >= 0 && y < desc->height && u >= 0 && u < desc->width;
      to[x] = inside ? line[c->flip ? desc->width - 1 - u : u] : fill;
    }
  }
}

static float pixel_at(const ac_augmentation *desc, const float *plane, int64_t x, int64_t y) {
  bool inside = x >= 0 && x < desc->width && y >= 0 && y < desc->height;
  return inside ? plane[y * desc->width + x] : (float)desc->fill;
}

/* Between the pixels (x, y) and (x + 1, y + 1), `right` and `low` being the shares of the latter.
 */
static float interpolate(const ac_augmentation *desc, const float *plane, int64_t x, int64_t y,
                         float right, float low) {
  float corner[4];
  if (x >= 0 && y >= 0 && x + 1 < desc->width && y + 1 < desc->height) {
    const float *at = plane + y * desc->width + x;
    corner[0] = at[0], corner[1] = at[1];
    corner[2] = at[desc->width], corner[3] = at[desc->width + 1];
  } else {
    for (int i = 0; i < 4; i++) corner[i] = pixel_at(desc, plane, x + i % 2, y + i / 2);
  }
  float upper = (1 - right) * corner[0] + right * corner[1];
  float lower = (1 - right) * corner[2] + right * corner[3];
  return (1 - low) * upper + low * lower;
}

/* One pixel of all channels, which comes from (x, y). */
static void take(const ac_augmentation *desc, const float *from, float x, float y, float *to) {
  int64_t pixels = desc->height * desc->width;
  bool near = x > -1 && y > -1 && x < (float)desc->width && y < (float)desc->height;
  if (!near) {
    for (int64_t c = 0; c < desc->channels; c++) to[c * pixels] = (float)desc->fill;
    return;
  }
  int64_t left = x < 0 ? -1 : (int64_t)x, top = y < 0 ? -1 : (int64_t)y;
  for (int64_t c = 0; c < desc->channels; c++)
    to[c * pixels] =
        interpolate(desc, from + c * pixels, left, top, x - (float)left, y - (float)top);
}

static void transform(const ac_augmentation *desc, const change *c, const float *from, float *to) {
  float middle_x = (float)(desc->width - 1) / 2, middle_y = (float)(desc->height - 1) / 2;
  float cosine = c->cosine / c->scale, sine = c->sine / c->scale, mirror = c->flip ? -1.0f : 1.0f;
  for (int64_t row = 0; row < desc->height; row++)
    for (int64_t column = 0; column < desc->width; column++) {
      float x = (float)(column - c->dx) - middle_x, y = (float)(row - c->dy) - middle_y;
      float u = cosine * x + sine * y, v = cosine * y - sine * x;
      take(desc, from, middle_x + mirror * u, middle_y + v, to++);
    }
}

/* Where pixel (x, y) of the sample, counted from its centre at a half, comes from: as
 * ac_picture_transform takes it. */
static void matrix_of(const ac_augmentation *d, const change *c, double m[6]) {
  const double cosine = (double)(c->cosine / c->scale), sine = (double)(c->sine / c->scale),
               mirror = c->flip ? -1 : 1, x = (double)d->width / 2, y = (double)d->height / 2,
               from_x = x + (double)c->dx, from_y = y + (double)c->dy;
  const double made[6] = {
      mirror * cosine, mirror * sine, x - mirror * (cosine * from_x + sine * from_y),
      -sine,           cosine,        y - cosine * from_y + sine * from_x};
  memcpy(m, made, sizeof made);
}

/* The nearest pixels of a mask. */
static void move_mask(const ac_augmentation *d, const change *c, const int32_t *from, int32_t *to) {
  double m[6];
  matrix_of(d, c, m);
  for (int64_t row = 0; row < d->height; row++)
    for (int64_t column = 0; column < d->width; column++, to++) {
      const double x = (double)column + 0.5, y = (double)row + 0.5;
      const double u = floor(m[0] * x + m[1] * y + m[2]), v = floor(m[3] * x + m[4] * y + m[5]);
      const bool inside = u >= 0 && v >= 0 && u < (double)d->width && v < (double)d->height;
      *to = inside ? from[(int64_t)v * d->width + (int64_t)u] : AC_MASK_IGNORED;
    }
}

static void erase(const ac_augmentation *desc, const change *c, float *image) {
  for (int64_t plane = 0; plane < desc->channels; plane++)
    for (int64_t row = 0; row < c->erased_height; row++) {
      float *line = image + (plane * desc->height + c->top + row) * desc->width + c->left;
      for (int64_t x = 0; x < c->erased_width; x++) line[x] = (float)desc->fill;
    }
}

static void normalise(const augmenter *a, float *image) {
  int64_t pixels = a->desc.height * a->desc.width;
  for (int64_t c = 0; c < a->desc.channels; c++, image += pixels)
    for (int64_t p = 0; p < pixels; p++) image[p] = image[p] * a->factor[c] + a->offset[c];
}

/* ---- reading --------------------------------------------------------------------------------- */

static void move(const augmenter *a, const change *c, const float *from, float *to) {
  const bool turns = a->desc.rotation > 0 || a->desc.scaling > 0;
  (turns ? transform : shift)(&a->desc, c, from, to);
}

static ac_status read_floats(augmenter *a, const ac_sample_key *key, const change *c,
                             void *const *fields) {
  if (!a->moves) return ac_dataset_read(a->whole, key, fields);
  void *inner[AC_MAX_FIELDS];
  memcpy(inner, fields, (size_t)a->whole->field_count * sizeof *inner);
  float *block = ac_pool_borrow(a->pool);
  inner[a->images] = block;
  const ac_status status = ac_dataset_read(a->whole, key, inner);
  if (status == AC_OK) move(a, c, block, fields[a->images]);
  ac_pool_return(a->pool, block);
  return status;
}

static uint8_t to_byte(float value) {
  const float scaled = value * 255 + 0.5f;
  return (uint8_t)(scaled < 0 ? 0 : scaled > 255 ? 255 : scaled);
}

/* Pixels that are only moved or left stay what they are: v / 255 * 255 rounds to v. */
static void change_bytes(augmenter *a, const change *c, uint8_t *bytes) {
  float *block = ac_pool_borrow(a->pool), *image = block;
  for (int64_t i = 0; i < a->values; i++) block[i] = (float)bytes[i] / 255.0f;
  if (a->moves) move(a, c, block, image = block + a->values);
  if (c->erased_height) erase(&a->desc, c, image);
  for (int64_t i = 0; i < a->values; i++) bytes[i] = to_byte(image[i]);
  ac_pool_return(a->pool, block);
}

/* A block has room for a mask, which is as large as one channel. */
static void change_mask(augmenter *a, const change *c, int32_t *mask) {
  int32_t *block = ac_pool_borrow(a->pool);
  memcpy(block, mask, (size_t)(a->desc.height * a->desc.width) * sizeof *mask);
  move_mask(&a->desc, c, block, mask);
  ac_pool_return(a->pool, block);
}

static ac_status read_augmented(void *user, const ac_sample_key *key, void *const *fields) {
  augmenter *a = user;
  const change c = draw(&a->desc, key);
  if (a->bytes) AC_TRY(ac_dataset_read(a->whole, key, fields));
  else AC_TRY(read_floats(a, key, &c, fields));
  if (a->moves && a->masks >= 0) change_mask(a, &c, fields[a->masks]);
  if (a->bytes) {
    if (a->moves || c.erased_height) change_bytes(a, &c, fields[a->images]);
    return AC_OK;
  }
  if (c.erased_height) erase(&a->desc, &c, fields[a->images]);
  if (a->factor) normalise(a, fields[a->images]);
  return AC_OK;
}

static ac_status trace_augmented(const void *user, const ac_sample_key *key, ac_polygon *polygon) {
  const augmenter *a = user;
  const change c = draw(&a->desc, key);
  double m[6];
  AC_TRY(ac_dataset_trace(a->whole, key, polygon));
  matrix_of(&a->desc, &c, m);
  ac_polygon_move(polygon, m);
  ac_polygon_cut(polygon, 0, 0, (double)a->desc.width, (double)a->desc.height);
  return AC_OK;
}

/* ---- making one ------------------------------------------------------------------------------ */

static void close_augmenter(void *user) {
  augmenter *a = user;
  ac_pool_free(a->pool);
  free(a->factor);
  free(a);
}

static ac_status check_numbers(const ac_augmentation *d) {
  int64_t largest = d->height > d->width ? d->height : d->width;
  if (d->shift < 0 || d->shift > largest)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "augmentation: a shift of %lld pixels; it must be in [0, %lld], the size of the "
                   "image",
                   (long long)d->shift, (long long)largest);
  if (!(d->rotation >= 0 && d->rotation <= 180))
    return ac_fail(AC_ERROR_ARGUMENT, "augmentation: a rotation of %g degrees is not in [0, 180]",
                   d->rotation);
  if (!(d->scaling >= 0 && d->scaling < 1))
    return ac_fail(AC_ERROR_ARGUMENT, "augmentation: a scaling of %g is not in [0, 1)", d->scaling);
  if (!(d->erase_probability >= 0 && d->erase_probability <= 1))
    return ac_fail(AC_ERROR_ARGUMENT, "augmentation: an erasing probability of %g is not in [0, 1]",
                   d->erase_probability);
  if (!(d->erase_area >= 0 && d->erase_area <= 1) || (d->erase_probability > 0 && !d->erase_area))
    return ac_fail(AC_ERROR_ARGUMENT, "augmentation: an erased share of %g is not in (0, 1]",
                   d->erase_area);
  if (!isfinite(d->fill))
    return ac_fail(AC_ERROR_ARGUMENT, "augmentation: the fill value is not finite");
  for (int64_t c = 0; c < d->channels; c++)
    if ((d->mean && !isfinite(d->mean[c])) ||
        (d->deviation && !(d->deviation[c] > 0 && isfinite(d->deviation[c]))))
      return ac_fail(AC_ERROR_ARGUMENT,
                     "augmentation: mean and deviation of channel %lld must be finite, and the "
                     "deviation above 0",
                     (long long)c);
  return AC_OK;
}

/* A field "masks" of another kind is left as it is, as any other. */
static int find_masks(const ac_dataset *whole, const ac_augmentation *d) {
  const int found = ac_dataset_find_field(whole, "masks");
  if (found < 0 || whole->fields[found].dtype != AC_I32) return -1;
  return whole->fields[found].elements == d->height * d->width ? found : -1;
}

static ac_status check(const ac_dataset *whole, ac_augmentation *d, int *images) {
  *images = ac_dataset_find_field(whole, "images");
  const ac_dtype dtype = *images < 0 ? AC_I32 : whole->fields[*images].dtype;
  if (dtype != AC_F32 && dtype != AC_U8)
    return ac_fail(AC_ERROR_ARGUMENT, "augmentation: there is no f32 or u8 field images");
  if (dtype == AC_U8 && (d->mean || d->deviation))
    return ac_fail(AC_ERROR_ARGUMENT, "augmentation: mean and deviation are for images in f32; a "
                                      "graph normalises those in u8");
  if (!d->channels && !d->height && !d->width) {
    d->channels = whole->image_shape[0];
    d->height = whole->image_shape[1];
    d->width = whole->image_shape[2];
    if (!d->channels)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "augmentation: the dataset does not know its images' channels, height and "
                     "width; give them");
  }
  int64_t elements = whole->fields[*images].elements;
  /* Divided, because the product may overflow. */
  if (d->channels < 1 || d->height < 1 || d->width < 1 || elements % d->channels ||
      elements / d->channels % d->height || elements / d->channels / d->height != d->width)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "augmentation: images of %lld values are not of shape [%lld, %lld, %lld]",
                   (long long)elements, (long long)d->channels, (long long)d->height,
                   (long long)d->width);
  return check_numbers(d);
}

static ac_status allocate(augmenter *a) {
  const ac_augmentation *d = &a->desc;
  const size_t channels = (size_t)d->channels;
  const bool normalised = d->mean || d->deviation;
  const uint64_t floats = (uint64_t)a->values * (a->moves + a->bytes) * sizeof(float);
  if (a->moves || (a->bytes && d->erase_probability > 0))
    AC_TRY(ac_pool_create(&a->pool, ac_pool_usual_count(), floats, "augmentation"));
  if (!normalised) return AC_OK;
  a->factor = malloc(2 * channels * sizeof *a->factor);
  if (!a->factor) return ac_fail(AC_ERROR_MEMORY, "augmentation: no memory for its description");
  a->offset = a->factor + channels;
  for (size_t c = 0; c < channels; c++) {
    a->factor[c] = 1 / (d->deviation ? d->deviation[c] : 1);
    a->offset[c] = d->mean ? -d->mean[c] * a->factor[c] : 0;
  }
  return AC_OK;
}

ac_status ac_dataset_augmented(ac_dataset **dataset, ac_dataset *whole,
                               const ac_augmentation *augmentation) {
  AC_CREATES(dataset);
  AC_REQUIRE(whole);
  ac_augmentation desc = AC_DESCRIBED(ac_augmentation, augmentation);
  int images;
  AC_TRY(check(whole, &desc, &images));
  augmenter *a = calloc(1, sizeof *a);
  if (!a) return ac_fail(AC_ERROR_MEMORY, "augmentation: no memory for its description");
  a->whole = whole;
  a->desc = desc;
  a->images = images;
  a->masks = find_masks(whole, &desc);
  a->bytes = whole->fields[images].dtype == AC_U8;
  a->values = whole->fields[images].elements;
  a->moves = desc.shift > 0 || desc.flip || desc.rotation > 0 || desc.scaling > 0;
  ac_status status = allocate(a);
  if (status == AC_OK)
    status =
        ac_dataset_create_over(dataset, whole, whole->count, read_augmented, close_augmenter, a);
  if (status != AC_OK) {
    close_augmenter(a);
    return status;
  }
  a->desc.mean = a->desc.deviation = NULL; /* the caller's */
  (*dataset)->trace = trace_augmented;
  (*dataset)->bytes = ac_pool_bytes(a->pool);
  memcpy((*dataset)->image_shape, (int64_t[]){desc.channels, desc.height, desc.width},
         sizeof(*dataset)->image_shape);
  return AC_OK;
}
