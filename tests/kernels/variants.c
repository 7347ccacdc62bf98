/* kernel_variants [NAME]: the programs that the OpenCL backend compiles on a GPU, each with its
 * options, as described_device.c writes them down; or the source of one, NAME.cl with what it
 * includes. They come of preparing, as the trainer would,
 *   - every case of the ops' tests, with its gradients,
 *   - every op at the sizes it is timed at,
 *   - attention with heads of sizes that the tests, which run, leave out,
 *   - all that multiplies, by each kind of matrix unit, and these units' trials,
 * in every storage type, f16 also with the trace of what is flushed. */
#include "ops/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/product/gemm.h"
#include "backend/opencl/shared/sources.h"
#include "ops/description.h"

static const ac_dtype storages[] = {AC_F32, AC_F16, AC_BF16};
enum { STORAGES = sizeof storages / sizeof *storages };

static bool failed;

static void prepare(ac_device *device, const ac_op_args *given) {
  ac_run_state run = *given->run;
  ac_op_args args = *given;
  args.run = &run;
  if (!device->backend->supports(device->state, &args)) return;
  for (int mark = 0; mark < 2; mark++) {
    run.mark_flushed = mark;
    if (device->backend->prepare(device->state, &args) == AC_OK) continue;
    fprintf(stderr, "kernel_variants: %s\n", ac_last_error());
    failed = true;
  }
}

static void prepare_case(ac_device *device, const op_case *c, ac_dtype storage) {
  op_instance forward, gradient;
  op_instance_stored(&forward, c, c->batch, storage);
  prepare(device, &forward.args);
  double *dy = op_random_gradient(&forward);
  for (int g = 0; g < c->gradient_count; g++) {
    op_instance_gradient(&gradient, &forward, &c->gradients[g], dy);
    prepare(device, &gradient.args);
    op_instance_free(&gradient);
  }
  free(dy);
  op_instance_free(&forward);
}

static void prepare_cases(ac_device *device, ac_dtype storage) {
  static const op_family *const families[] = {
#define FAMILY(folder, name) &op_family_##name,
      AC_OP_FAMILY_LIST(FAMILY)
#undef FAMILY
  };
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->case_count; i++)
      prepare_case(device, &families[f]->cases[i], storage);
}

static void prepare_samples(ac_device *device, ac_dtype storage) {
  for (int op = 0; op < AC_OP_COUNT; op++)
    for (int size = 0; size < AC_SAMPLE_SIZES; size++) {
      ac_op_args args;
      ac_op_sample_arguments(&args, (ac_op)op, storage, size);
      prepare(device, &args);
    }
}

static void widen(ac_operand *x, int64_t times) {
  x->dim[x->rank - 1] *= times;
  x->count *= times;
}

static ac_operand like(const ac_operand *x, ac_dtype dtype, int rank) {
  ac_operand y = *x;
  y.dtype = dtype;
  y.rank = rank;
  y.count = 1;
  for (int d = 0; d < rank; d++) y.count *= y.dim[d];
  return y;
}

/* Adds a bias, documents and, if it is a gradient, that of the bias. */
static void mask(ac_op_args *args, bool gradient) {
  ac_operand *masks = &args->in[gradient ? 6 : 3];
  const ac_operand *q = &args->in[gradient];
  const ac_operand bias = {
      .dtype = AC_F32, .rank = 3, .dim = {1, q->dim[1], q->dim[1]}, .count = q->dim[1] * q->dim[1]};
  masks[0] = bias;
  masks[2] = like(q, AC_I32, 2);
  if (gradient) args->out[3] = bias;
}

static void prepare_heads(ac_device *device, ac_dtype storage) {
  enum { SAMPLE = 32 };
  static const int heads[] = {SAMPLE, 96, 128, 256};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    ac_op_args forward, gradient;
    const int64_t times = heads[i] / SAMPLE;
    ac_op_sample_arguments(&forward, AC_OP_attention, storage, 0);
    widen(&forward.in[0], times), widen(&forward.out[0], times);
    ac_op_sample_arguments(&gradient, AC_OP_attention_gradient, storage, 0);
    widen(&gradient.in[0], times), widen(&gradient.in[1], times);
    widen(&gradient.in[4], times), widen(&gradient.out[0], times);
    for (int masked = 0; masked < 2; masked++) {
      if (masked) mask(&forward, false), mask(&gradient, true);
      prepare(device, &forward);
      prepare(device, &gradient);
    }
  }
}

/* What a trial of any class compiles, the last one of images: rows that are not aligned and rows
 * that are. */
static void prepare_trials(ac_opencl *cl, ac_dtype storage) {
  cl->op = "trial";
  cl->storage = storage;
  cl->mark_flushed = false;
  cl->preparing = true;
  for (int number = 0; number < 9; number++)
    for (int pitch = 7; pitch <= 8; pitch++) {
      const ac_cl_product product = {.transpose_a = number & 1,
                                     .transpose_b = number >> 1 & 1,
                                     .float_c = number >> 2 & 1,
                                     .images = number >> 3,
                                     .pixels = 7,
                                     .m = 7,
                                     .n = 7,
                                     .k = 7,
                                     .batch = 1,
                                     .pitch_a = pitch,
                                     .pitch_b = pitch};
      if (ac_cl_unit_gemm(cl, &product, cl->unit->small) != AC_OK ||
          ac_cl_unit_gemm(cl, &product, cl->unit->large) != AC_OK) {
        fprintf(stderr, "kernel_variants: %s\n", ac_last_error());
        failed = true;
      }
    }
  cl->preparing = false;
}

/* The device has the unit, and it computes all it might. */
static void prepare_units(ac_device *device, ac_dtype storage) {
  ac_opencl *cl = device->state;
  for (int i = 0; (cl->unit = ac_cl_unit_at(i)); i++) {
    cl->unit_options = cl->unit->spellings[0];
    memset(cl->unit_classes, AC_CL_UNIT_TAKES, sizeof cl->unit_classes);
    if (storage != AC_F32) prepare_trials(cl, storage);
    prepare_cases(device, storage);
    prepare_samples(device, storage);
  }
}

static int print_source(const char *name) {
  for (int i = 0; i < ac_cl_source_count; i++) {
    const ac_cl_source *source = &ac_cl_sources[i];
    if (strcmp(source->name, name)) continue;
    for (int k = 0; k < source->part_count; k++)
      fwrite(source->parts[k]->bytes, 1, source->parts[k]->length, stdout);
    return ferror(stdout) != 0;
  }
  fprintf(stderr, "kernel_variants: there is no %s.cl in cl/\n", name);
  return 1;
}

int main(int argc, char **argv) {
  if (argc > 1) return print_source(argv[1]);
  /* Our own products, which CLBlast would replace, and the choice of their tiles. */
  setenv("ACCRUE_CLBLAST", "0", true);
  setenv("ACCRUE_TUNE", "1", true);
  ac_device *device;
  if (ac_device_open(&device, &(ac_device_desc){.name = "opencl"}) != AC_OK) {
    fprintf(stderr, "kernel_variants: %s\n", ac_last_error());
    return 1;
  }
  for (int s = 0; s < STORAGES; s++) {
    prepare_cases(device, storages[s]);
    prepare_samples(device, storages[s]);
    prepare_heads(device, storages[s]);
    prepare_units(device, storages[s]);
  }
  ac_device_close(device);
  return failed;
}
