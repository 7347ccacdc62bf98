/* Cases and references of dropout, and the random numbers under it. */
#include "ops/driver.h"
#include "ops/generator.h"

#include "core/random.h"

#include <math.h>
#include <stdlib.h>

/* Philox 4x32-10 written from the paper, so that core/random.h and the kernels have something to
 * agree with: ten rounds of two 32 x 32 bit products, the key raised by the Weyl constants after
 * each. */
static void philox(uint32_t counter[4], const uint32_t key_[2]) {
  uint32_t key[2] = {key_[0], key_[1]};
  for (int round = 0; round < 10; round++) {
    uint64_t a = counter[0] * (uint64_t)0xD2511F53, b = counter[2] * (uint64_t)0xCD9E8D57;
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ counter[1] ^ key[0], (uint32_t)b,
                        (uint32_t)(a >> 32) ^ counter[3] ^ key[1], (uint32_t)a};
    for (int i = 0; i < 4; i++) counter[i] = next[i];
    key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
  }
}

/* Element e of sample s is dropped if its 16 bits are below p 2^16, rounded; else y = x / (1 - p)
 * for the p that this comes to. The first element decides for samples that are dropped whole. */
static void dropout(const ac_op_args *args) {
  const ac_dropout_attributes *a = args->attributes;
  const ac_run_state *run = args->run;
  for (int64_t i = 0; i < args->in[0].count; i++) {
    uint32_t e = a->whole ? 0 : (uint32_t)(i % a->elements_per_sample);
    uint32_t s = run->sample + (uint32_t)(i / a->elements_per_sample);
    uint32_t counter[4] = {e / 8, s, run->update, a->stream};
    uint32_t key[2] = {(uint32_t)run->seed, (uint32_t)(run->seed >> 32)};
    philox(counter, key);
    uint32_t bits = counter[e % 8 / 2] >> (e % 2 ? 16 : 0) & 0xffff;
    double p = floor((double)a->p * 65536 + 0.5) / 65536;
    bool drop = run->training && bits < p * 65536;
    double keep = run->training ? 1 / (1 - p) : 1;
    op_reals(&args->out[0])[i] = drop ? 0 : op_reals(&args->in[0])[i] * keep;
  }
}

/* 1 - p, its reciprocal and the product are rounded; zeros are exact, so a differing mask always
 * shows. */
static op_tolerance dropout_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){2, 0};
}

const op_reference op_reference_dropout = {dropout, dropout_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_dropout, .in = {OP_DY}, .of = {0}, .outputs = 1},
};

#define DROPOUT(name_, p_, elements, batch_, ...)                                  \
  {                                                                                \
    .name = name_, .op = AC_OP_dropout,                                            \
    .attributes.dropout = {.p = p_, .stream = 3, .elements_per_sample = elements}, \
    .batch = batch_, .gradients = gradients, .gradient_count = 1, __VA_ARGS__      \
  }
#define DROP_PATH(name_, p_, elements, batch_, ...)                                            \
  {                                                                                            \
    .name = name_, .op = AC_OP_dropout,                                                        \
    .attributes.dropout = {.p = p_, .stream = 3, .elements_per_sample = elements, .whole = 1}, \
    .batch = batch_, .gradients = gradients, .gradient_count = 1, __VA_ARGS__                  \
  }
#define FROM_1_TO_2(...) OP_RANGE(1, 2, __VA_ARGS__)

static const op_case cases[] = {
    DROPOUT("0.1 of 3x65x129", 0.1f, 65 * 129, 3, .in = {FROM_1_TO_2(AC_BATCH, 65, 129)},
            .out = {OP_F32(AC_BATCH, 65, 129)}),
    DROPOUT("0.5 of 7 samples of 3x5, rows folded", 0.5f, 15, 7,
            .in = {FROM_1_TO_2(OP_BATCH(3), 5)}, .out = {OP_F32(OP_BATCH(3), 5)}),
    DROPOUT("0.9 of 65x1", 0.9f, 1, 65, .in = {FROM_1_TO_2(AC_BATCH, 1)},
            .out = {OP_F32(AC_BATCH, 1)}),
    DROPOUT("0.3, evaluation", 0.3f, 65, 7, .in = {FROM_1_TO_2(AC_BATCH, 65)},
            .out = {OP_F32(AC_BATCH, 65)}, .evaluation = true),
    /* Enough elements for threads to share the copy. */
    DROPOUT("0.3 of 3x65x129, evaluation", 0.3f, 65 * 129, 3,
            .in = {FROM_1_TO_2(AC_BATCH, 65, 129)}, .out = {OP_F32(AC_BATCH, 65, 129)},
            .evaluation = true),
    DROP_PATH("whole samples, 0.5 of 9x65x129", 0.5f, 65 * 129, 9,
              .in = {FROM_1_TO_2(AC_BATCH, 65, 129)}, .out = {OP_F32(AC_BATCH, 65, 129)}),
    DROP_PATH("whole samples, 0.25 of 33 of 3x5, rows folded", 0.25f, 15, 33,
              .in = {FROM_1_TO_2(OP_BATCH(3), 5)}, .out = {OP_F32(OP_BATCH(3), 5)}),
};
enum { SPLIT_WHOLE = 6 };

static void known_answers(void) {
  static const struct {
    uint32_t counter[4], key[2], result[4];
  } known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (int k = 0; k < 3; k++) {
    uint32_t plain[4];
    for (int i = 0; i < 4; i++) plain[i] = known[k].counter[i];
    philox(plain, known[k].key);
    ac_philox_block block =
        ac_philox((uint64_t)known[k].key[1] << 32 | known[k].key[0], known[k].counter[0],
                  known[k].counter[1], known[k].counter[2], known[k].counter[3]);
    for (int i = 0; i < 4; i++) {
      OP_EXPECT("philox", plain[i] == known[k].result[i], "plain, answer %d: %08x", k, plain[i]);
      OP_EXPECT("philox", block.v[i] == known[k].result[i], "core, answer %d: %08x", k, block.v[i]);
    }
  }
}

/* Samples 2 to 4 of a batch of seven, run as a micro-batch of their own, get the values they had in
 * the whole. */
static void split(ac_device *device, const op_case *c) {
  op_instance whole, part;
  op_result all, some;
  op_variant variant = {.name = "split batch"};
  op_instance_forward(&whole, c, 7);
  op_instance_forward(&part, c, 3);
  part.run.sample += 2;
  int64_t sample = c->attributes.dropout.elements_per_sample;
  for (int64_t i = 0; i < 3 * sample; i++)
    op_reals(&part.args.in[0])[i] = op_reals(&whole.args.in[0])[2 * sample + i];
  bool ran = op_run(device, &whole, &variant, &all);
  ran = op_run(device, &part, &variant, &some) && ran;
  const char *where = op_where(device, &whole, &variant);
  for (int64_t i = 0; ran && i < 3 * sample; i++)
    OP_EXPECT(where, some.out[0][i] == all.out[0][2 * sample + i],
              "element %lld: %g, in the whole %g", (long long)i, some.out[0][i],
              all.out[0][2 * sample + i]);
  op_result_free(&all);
  op_result_free(&some);
  op_instance_free(&whole);
  op_instance_free(&part);
}

/* The share of zeros is p within five standard deviations, and another update, stream or seed draws
 * another mask. */
static void statistics(ac_device *device) {
  double *first = NULL;
  for (int k = 0; k < 4; k++) {
    op_instance y;
    op_result result;
    op_variant variant = {.name = "mask"};
    op_instance_forward(&y, &cases[0], 3);
    if (k == 1) y.run.update++;
    if (k == 2) y.attributes.dropout.stream++;
    if (k == 3) y.run.seed++;
    const char *where = op_where(device, &y, &variant);
    if (op_run(device, &y, &variant, &result)) {
      int64_t n = y.args.out[0].count, zeros = 0, both = 0;
      for (int64_t i = 0; i < n; i++) {
        zeros += result.out[0][i] == 0;
        both += result.out[0][i] == 0 && first && first[i] == 0;
      }
      double p = 0.1, mean = (double)n * p;
      OP_EXPECT(where, fabs((double)zeros - mean) < 5 * sqrt(mean * (1 - p)), "%lld zeros of %lld",
                (long long)zeros, (long long)n);
      if (first)
        OP_EXPECT(where, fabs((double)both - mean * p) < 5 * sqrt(mean * p),
                  "masks %d and 0 share %lld zeros", k, (long long)both);
    }
    if (!first) {
      first = result.out[0];
      result.out[0] = NULL;
    }
    op_result_free(&result);
    op_instance_free(&y);
  }
  free(first);
}

static void special(ac_device *device) {
  split(device, &cases[1]);
  split(device, &cases[2]);
  split(device, &cases[SPLIT_WHOLE]);
  if (!op_reduced) statistics(device);
}

const op_family op_family_dropout = {"dropout", cases,   sizeof cases / sizeof *cases,
                                     NULL,      special, known_answers};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const float p = (float)op_draw_between(d, 0.05, 0.6);
  return op_draw_one_in(d, 3) ? ac_drop_path(x, p) : ac_dropout(x, p);
}

const op_generator op_generator_dropout = {
    .takes = op_takes_batched, .build = grow, OP_GRADIENTS(gradients)};
