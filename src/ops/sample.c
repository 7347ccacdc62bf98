/* The sizes at which ops are timed. The first is so small that it shows the cost of beginning an
 * op. The other two are sizes of activations that have left the inner caches, as in a training
 * step. The middle size of products and of attention does little arithmetic for the bytes that it
 * moves, so that the two costs can be separated. */
#include "ops/description.h"

static int64_t dimension(char letter, int size) {
  static const struct {
    char letter;
    int64_t size[AC_SAMPLE_SIZES];
  } dimensions[] = {
      {'n', {64, 1 << 19, 1 << 20}}, /* elements */
      {'p', {64, 1 << 20, 1 << 21}}, /* of a parameter: an update finds none in a cache */
      {'R', {16, 1024, 2048}},       /* rows and */
      {'C', {64, 512, 512}},         /* channels */
      {'m', {2, 8, 16}},             /* samples, */
      {'c', {8, 64, 64}},            /* channels and */
      {'P', {4, 1024, 1024}},        /* positions of images */
      {'v', {4, 512, 2048}},         /* rows and */
      {'V', {128, 1024, 1024}},      /* classes, or entries of a table */
      {'r', {4, 64, 512}},           /* rows, */
      {'i', {128, 768, 768}},        /* inputs and */
      {'o', {128, 3072, 768}},       /* outputs of a linear layer */
      {'b', {1, 64, 8}},             /* a batch of products */
      {'B', {1, 64, 4}},             /* samples, */
      {'T', {16, 64, 512}},          /* positions, */
      {'D', {128, 128, 128}},        /* channels, */
      {'Q', {384, 384, 384}},        /* three times as many, */
      {'H', {4, 4, 4}},              /* and heads of attention */
      {'k', {16, 16, 64}},           /* channels of images, */
      {'K', {32, 32, 128}},          /* twice as many, */
      {'S', {2, 56, 28}},            /* their height or width, */
      {'s', {1, 28, 14}},            /* and half of it */
  };
  for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++)
    if (dimensions[i].letter == letter) return dimensions[i].size[size];
  return letter - '0';
}

static ac_operand operand(const char *shape, int size, ac_dtype dtype) {
  ac_operand x = {.dtype = dtype};
  if (!shape) return x;
  if (*shape == '#') x.dtype = AC_I32, shape++;
  for (x.count = 1; *shape; shape++) x.count *= x.dim[x.rank++] = dimension(*shape, size);
  return x;
}

/* A cast goes from f32 to the storage type. */
void ac_op_sample_arguments(ac_op_args *args, ac_op op, ac_dtype storage, int size) {
  static const ac_run_state run = {.training = true, .seed = 1, .batch = 8, .loss_scale = 1};
  const ac_op_sample *sample = &ac_op_describe(op)->sample;
  const void *attributes = sample->attributes;
  if (storage == AC_BF16 && sample->bf16_attributes) attributes = sample->bf16_attributes;
  if (size == 1 && sample->middle_attributes) attributes = sample->middle_attributes;
  *args = (ac_op_args){.op = op, .attributes = attributes, .run = &run};
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    ac_dtype dtype = ac_op_input_kind(op, i) == 's' ? storage : AC_F32;
    args->in[i] = operand(sample->in[i], size, dtype);
  }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    char kind = ac_op_output_kind(op, j);
    args->out[j] =
        operand(sample->out[j], size, kind == 's' || kind == 'a' || kind == 'e' ? storage : AC_F32);
  }
}
