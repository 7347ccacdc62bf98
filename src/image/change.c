/* Numbers are drawn one after the other from a stream of their own for each purpose: counter words
 * (index, epoch, stream + number / 4). The operations and their strengths are those of
 * torchvision's RandAugment and TrivialAugmentWide. */
#include "image/change.h"

#include "core/error.h"
#include "core/random.h"

#include <math.h>
#include <string.h>

/* Counter word 3; apart from the streams of augmentation, dropout, shuffling and windows, which
 * share the key. 256 blocks of four numbers each. */
typedef enum stream {
  CROP = 0x50490000,
  FLIP = CROP + 0x100,
  AUGMENT = CROP + 0x200,
  COLOURS = CROP + 0x300
} stream;

typedef struct draws {
  const ac_sample_key *key;
  uint32_t stream;
  int used;
  ac_philox_block block;
} draws;

static draws begin(const ac_sample_key *key, stream stream) {
  return (draws){.key = key, .stream = (uint32_t)stream};
}

static uint32_t next(draws *d) {
  if (d->used % 4 == 0)
    d->block =
        ac_philox(d->key->seed, (uint32_t)d->key->index, (uint32_t)((uint64_t)d->key->index >> 32),
                  (uint32_t)d->key->epoch, d->stream + (uint32_t)(d->used / 4));
  return d->block.v[d->used++ % 4];
}

/* In [least, most). */
static double uniform(draws *d, double least, double most) {
  return least + (most - least) * (double)ac_uniform24(next(d));
}

/* A whole number in [0, count). */
static int64_t below(draws *d, int64_t count) {
  return (int64_t)((uint64_t)next(d) * (uint64_t)count >> 32);
}

/* ---- crops ----------------------------------------------------------------------------------- */

/* The middle, as large as the shapes that are allowed let it be. */
static ac_picture_box middle(const ac_picture_changes *c, int64_t width, int64_t height) {
  const double aspect = (double)width / (double)height;
  ac_picture_box box = {.width = width, .height = height};
  if (aspect < c->crop_aspect[0]) box.height = llround((double)width / c->crop_aspect[0]);
  else if (aspect > c->crop_aspect[1]) box.width = llround((double)height * c->crop_aspect[1]);
  if (box.height < 1) box.height = 1;
  if (box.width < 1) box.width = 1;
  box.left = (width - box.width) / 2;
  box.top = (height - box.height) / 2;
  return box;
}

ac_picture_box ac_picture_draw_crop(const ac_picture_changes *changes, const ac_sample_key *key,
                                    int64_t width, int64_t height) {
  enum { ATTEMPTS = 10 };
  draws d = begin(key, CROP);
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    const double area = (double)(width * height) *
                        uniform(&d, changes->crop_area[0], changes->crop_area[1]),
                 aspect =
                     exp(uniform(&d, log(changes->crop_aspect[0]), log(changes->crop_aspect[1])));
    ac_picture_box box = {.width = llround(sqrt(area * aspect)),
                          .height = llround(sqrt(area / aspect))};
    const uint32_t across = next(&d), down = next(&d);
    if (box.width < 1 || box.height < 1 || box.width > width || box.height > height) continue;
    box.left = (int64_t)((uint64_t)across * (uint64_t)(width - box.width + 1) >> 32);
    box.top = (int64_t)((uint64_t)down * (uint64_t)(height - box.height + 1) >> 32);
    return box;
  }
  return middle(changes, width, height);
}

/* ---- operations ------------------------------------------------------------------------------ */

#define DEGREE (3.14159265358979323846 / 180)

static double to_15_places(double x) {
  return round(x * 1e15) / 1e15;
}

/* Against the clock, around the middle. */
static void rotation(double degrees, double width, double height, double m[6]) {
  const double cosine = to_15_places(cos(degrees * -DEGREE)),
               sine = to_15_places(sin(degrees * -DEGREE)), x = width / 2, y = height / 2;
  const double turned[6] = {cosine, sine,   x - cosine * x - sine * y,
                            -sine,  cosine, y + sine * x - cosine * y};
  memcpy(m, turned, sizeof turned);
}

/* How an operation moves pixels, as ac_picture_transform takes it; false: it changes colours. */
static bool moves(ac_picture_operation operation, double magnitude, int64_t width, int64_t height,
                  double m[6]) {
  static const double nothing[6] = {1, 0, 0, 0, 1, 0};
  memcpy(m, nothing, sizeof nothing);
  if (operation == AC_OPERATION_SHEAR_X) m[1] = magnitude;
  else if (operation == AC_OPERATION_SHEAR_Y) m[3] = magnitude;
  else if (operation == AC_OPERATION_TRANSLATE_X) m[2] = -trunc(magnitude);
  else if (operation == AC_OPERATION_TRANSLATE_Y) m[5] = -trunc(magnitude);
  else if (operation == AC_OPERATION_ROTATE) rotation(magnitude, (double)width, (double)height, m);
  else return false;
  return true;
}

void ac_picture_operate(ac_picture_operation operation, double magnitude, const ac_pixels *p,
                        uint8_t *room) {
  const float factor = (float)(1 + magnitude);
  double m[6];
  if (moves(operation, magnitude, p->width, p->height, m)) {
    ac_picture_transform(p, m, 0, room);
    return;
  }
  switch (operation) {
  case AC_OPERATION_BRIGHTNESS:
    ac_picture_brightness(p, factor);
    return;
  case AC_OPERATION_SATURATION:
    ac_picture_saturation(p, factor);
    return;
  case AC_OPERATION_CONTRAST:
    ac_picture_contrast(p, factor);
    return;
  case AC_OPERATION_SHARPNESS:
    ac_picture_sharpness(p, factor, room);
    return;
  case AC_OPERATION_POSTERIZE:
    ac_picture_posterize(p, (int)magnitude);
    return;
  case AC_OPERATION_SOLARIZE:
    ac_picture_solarize(p, magnitude);
    return;
  case AC_OPERATION_AUTOCONTRAST:
    ac_picture_autocontrast(p);
    return;
  case AC_OPERATION_EQUALIZE:
    ac_picture_equalize(p);
    return;
  default:
    return;
  }
}

/* How strong an operation is at `strength` of 0 to 1, by the two papers' ranges. */
static double magnitude_of(ac_picture_operation operation, double strength, bool trivial,
                           int64_t width, int64_t height) {
  switch (operation) {
  case AC_OPERATION_SHEAR_X:
  case AC_OPERATION_SHEAR_Y:
    return (trivial ? 0.99 : 0.3) * strength;
  case AC_OPERATION_TRANSLATE_X:
    return (trivial ? 32.0 : 150.0 / 331.0 * (double)width) * strength;
  case AC_OPERATION_TRANSLATE_Y:
    return (trivial ? 32.0 : 150.0 / 331.0 * (double)height) * strength;
  case AC_OPERATION_ROTATE:
    return (trivial ? 135.0 : 30.0) * strength;
  case AC_OPERATION_BRIGHTNESS:
  case AC_OPERATION_SATURATION:
  case AC_OPERATION_CONTRAST:
  case AC_OPERATION_SHARPNESS:
    return (trivial ? 0.99 : 0.9) * strength;
  case AC_OPERATION_POSTERIZE:
    return 8 - (double)llrint((trivial ? 6 : 4) * strength);
  case AC_OPERATION_SOLARIZE:
    return 255 * (1 - strength);
  default:
    return 0;
  }
}

static bool has_sign(ac_picture_operation operation) {
  return operation >= AC_OPERATION_SHEAR_X && operation <= AC_OPERATION_SHARPNESS;
}

/* The next operation of a sample of this size, and how strong it is. */
static ac_picture_operation draw_operation(draws *d, const ac_picture_changes *c, int64_t width,
                                           int64_t height, double *magnitude) {
  enum { STEPS = 30 };
  const ac_picture_operation operation = (ac_picture_operation)below(d, AC_OPERATIONS);
  const int64_t step = below(d, STEPS + 1);
  const bool negative = next(d) >> 31;
  const double strength = c->trivial_augment ? (double)step / STEPS : c->magnitude / STEPS;
  *magnitude = magnitude_of(operation, strength, c->trivial_augment, width, height);
  if (negative && has_sign(operation)) *magnitude = -*magnitude;
  return operation;
}

static int operations_of(const ac_picture_changes *c) {
  return c->trivial_augment ? 1 : c->rand_augment;
}

static void augment(const ac_picture_changes *c, const ac_sample_key *key, const ac_pixels *p,
                    uint8_t *room) {
  draws d = begin(key, AUGMENT);
  for (int i = 0; i < operations_of(c); i++) {
    double magnitude;
    const ac_picture_operation operation = draw_operation(&d, c, p->width, p->height, &magnitude);
    ac_picture_operate(operation, magnitude, p, room);
  }
}

static bool draw_flip(const ac_picture_changes *c, const ac_sample_key *key) {
  draws d = begin(key, FLIP);
  return c->flip && next(&d) >> 31;
}

void ac_picture_draw_moves(const ac_picture_changes *c, const ac_sample_key *key, int64_t width,
                           int64_t height, ac_picture_moves *drawn) {
  draws d = begin(key, AUGMENT);
  drawn->count = 0;
  if (draw_flip(c, key)) {
    const double mirror[6] = {-1, 0, (double)width, 0, 1, 0};
    memcpy(drawn->m[drawn->count++], mirror, sizeof mirror);
  }
  for (int i = 0; i < operations_of(c); i++) {
    double magnitude;
    const ac_picture_operation operation = draw_operation(&d, c, width, height, &magnitude);
    if (moves(operation, magnitude, width, height, drawn->m[drawn->count])) drawn->count++;
  }
}

/* ---- colours --------------------------------------------------------------------------------- */

static double factor(draws *d, double reach) {
  const double value = uniform(d, 1 - reach < 0 ? 0 : 1 - reach, 1 + reach);
  return value;
}

/* In an order that is drawn as well. */
static void change_colours(const ac_picture_changes *c, const ac_sample_key *key,
                           const ac_pixels *p) {
  enum { KINDS = 4 };
  draws d = begin(key, COLOURS);
  int order[KINDS] = {0, 1, 2, 3};
  for (int i = KINDS - 1; i > 0; i--) {
    const int64_t j = below(&d, i + 1);
    const int kind = order[i];
    order[i] = order[j];
    order[j] = kind;
  }
  const double brightness = factor(&d, c->brightness), contrast = factor(&d, c->contrast),
               saturation = factor(&d, c->saturation), hue = uniform(&d, -c->hue, c->hue);
  for (int i = 0; i < KINDS; i++) {
    if (order[i] == 0 && c->brightness > 0) ac_picture_brightness(p, (float)brightness);
    if (order[i] == 1 && c->contrast > 0) ac_picture_contrast(p, (float)contrast);
    if (order[i] == 2 && c->saturation > 0) ac_picture_saturation(p, (float)saturation);
    if (order[i] == 3 && c->hue > 0) ac_picture_hue(p, hue);
  }
}

/* ---- all ------------------------------------------------------------------------------------- */

void ac_picture_change(const ac_picture_changes *changes, const ac_sample_key *key,
                       const ac_pixels *pixels, uint8_t *room) {
  if (draw_flip(changes, key)) ac_picture_mirror(pixels);
  augment(changes, key, pixels, room);
  if (changes->brightness > 0 || changes->contrast > 0 || changes->saturation > 0 ||
      changes->hue > 0)
    change_colours(changes, key, pixels);
}

static ac_status check_range(const double range[2], double most, const char *name) {
  if (range[0] > 0 && range[0] <= range[1] && range[1] <= most) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "pictures: %s from %g to %g is not a range in (0, %g]", name,
                 range[0], range[1], most);
}

ac_status ac_picture_changes_complete(ac_picture_changes *c) {
  if (c->crop_area[0] == 0 && c->crop_area[1] == 0) c->crop_area[0] = 0.08, c->crop_area[1] = 1;
  if (c->crop_aspect[0] == 0 && c->crop_aspect[1] == 0)
    c->crop_aspect[0] = 3.0 / 4, c->crop_aspect[1] = 4.0 / 3;
  if (c->magnitude == 0) c->magnitude = 9;
  AC_TRY(check_range(c->crop_area, 1, "a crop's area"));
  AC_TRY(check_range(c->crop_aspect, 100, "a crop's width / height"));
  if (c->rand_augment < 0 || c->rand_augment > AC_PICTURE_MOST_OPERATIONS)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "pictures: %d operations of RandAugment; there can be 0 to %d", c->rand_augment,
                   (int)AC_PICTURE_MOST_OPERATIONS);
  if (!(c->magnitude >= 0 && c->magnitude <= 30))
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: a magnitude of %g is not in [0, 30]",
                   c->magnitude);
  if (c->rand_augment && c->trivial_augment)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "pictures: RandAugment and TrivialAugment exclude each other");
  const double *const amounts[] = {&c->brightness, &c->contrast, &c->saturation};
  for (int i = 0; i < 3; i++)
    if (!(*amounts[i] >= 0 && *amounts[i] <= 10))
      return ac_fail(AC_ERROR_ARGUMENT,
                     "pictures: a change of brightness, contrast or saturation by %g is not in "
                     "[0, 10]",
                     *amounts[i]);
  if (!(c->hue >= 0 && c->hue <= 0.5))
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: a change of hue by %g is not in [0, 0.5]", c->hue);
  return AC_OK;
}
