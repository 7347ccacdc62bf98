/* Runs ops on devices and compares the results with the references. Failures are printed to stderr
 * and counted; the caller decides what to do with the count. */
#ifndef AC_TESTS_OPS_DRIVER_H
#define AC_TESTS_OPS_DRIVER_H

#include "backend/device.h"
#include "case.h"

/* ---- an op with concrete shapes and values, on the host -------------------------------------- */

typedef struct op_instance {
  const char *family_case; /* for messages */
  ac_dtype storage;        /* of operands of kind s; values are what it can hold */
  op_attributes attributes;
  ac_run_state run;
  int results;     /* op_case.results, at least 1 */
  ac_op_args args; /* data: double or int32_t; outputs hold the reference's result */
  double *initial[AC_MAX_OUTPUTS]; /* what outputs hold before the run */
  op_fill out_fill[AC_MAX_OUTPUTS];
} op_instance;

/* Shapes for `batch` samples, values drawn from the case's name. */
void op_instance_forward(op_instance *instance, const op_case *c, int64_t batch);
void op_instance_stored(op_instance *instance, const op_case *c, int64_t batch, ac_dtype storage);
/* A gradient kernel fed from a forward instance; `dy` has the gradients of its results, one after
 * the other. */
void op_instance_gradient(op_instance *instance, const op_instance *forward,
                          const op_gradient *gradient, const double *dy);
/* One op with shapes from specs, values zero: for special checks. */
void op_instance_blank(op_instance *instance, const op_case *c, ac_dtype storage);
void op_instance_compute(op_instance *instance); /* runs the reference */
void op_instance_free(op_instance *instance);

/* The gradient of the objective (sum of dy * y, or the scaled loss) for each result. Free it. */
double *op_random_gradient(const op_instance *forward);

/* ---- storage --------------------------------------------------------------------------------- */

/* One value to and from its bytes. */
void op_encode(ac_dtype dtype, double value, void *to);
double op_decode(ac_dtype dtype, const void *from);
double op_round(ac_dtype dtype, double value);
/* The number in [0, 1) that is drawn for element e of what is rounded by chance to bf16, and what
 * it makes of a value: rounded up in magnitude if it and the part cut off are a whole. `key`: the
 * seed with the hash of the parameter's name. */
double op_chance(uint64_t key, uint32_t sample, uint32_t update, uint32_t stream, int64_t e);
double op_round_by_chance(double value, double chance);
/* What storing a value may add to its error. */
double op_storage_error(ac_dtype dtype, double value);
const char *op_storage_name(ac_dtype dtype);
/* Whether any of the case's operands is of kind s. */
bool op_has_storage(const op_case *c);

/* ---- running --------------------------------------------------------------------------------- */

typedef struct op_variant {
  const char *name;
  bool in_place;
  int alias;          /* in_place: the input that shares memory with output 0 */
  unsigned add;       /* bits of outputs that are added to */
  unsigned absent;    /* bits of outputs left out */
  uint64_t workspace; /* bytes; 0: what the backend asks for */
  bool once;          /* skip the second run */
} op_variant;

/* Results as the device left them, in double. */
typedef struct op_result {
  double *out[AC_MAX_OUTPUTS];
  bool rounds_factors; /* to bf16 (op_factor_error) */
} op_result;

/* Runs the instance with guards around every operand and the workspace, twice, and checks that only
 * outputs were written, that both runs gave the same bits and that no device object was made. False
 * if it did not run. */
bool op_run(ac_device *device, const op_instance *instance, const op_variant *variant,
            op_result *result);
void op_result_free(op_result *result);

/* Runs an op of one input and one output on bits as they are stored; `out` holds what is added to
 * if `add`. False if it did not run. */
bool op_run_bits(ac_device *device, const ac_op_args *shapes, const void *in, void *out);

/* Compares with the reference (plus what was added to). `factor` widens the tolerance. */
void op_compare(const char *where, const op_instance *instance, const op_variant *variant,
                const op_result *result, double factor);

/* ---- checks ---------------------------------------------------------------------------------- */

/* The references against each other: gradients against finite differences of the forward reference.
 */
void op_check_reference(const op_family *family);
/* Every case on a device, against the references. */
void op_check_cases(const op_family *family, ac_device *device);
/* Cases that `draw` makes of random numbers, but for their names: op_drawn of them on the host,
 * where each costs little, and fewer on others, none if op_reduced. */
struct op_draw;
void op_check_drawn(const op_family *family, ac_device *device,
                    void (*draw)(op_case *c, struct op_draw *d));
/* A case of a norm. Its result does not depend on the size of its input 0: with squares that floats
 * do not hold, and with sums that they do not hold. */
void op_check_large(ac_device *device, const op_case *c);
/* Two devices side by side. */
void op_check_pair(const op_family *family, ac_device *one, ac_device *other);
/* Committed PyTorch results against the references (device NULL) or a device. */
void op_check_vectors(const op_family *family, ac_device *device);

/* Less of everything, for slow checkers such as oclgrind. */
extern bool op_reduced;
extern int op_drawn; /* cases that are drawn of each family that draws some */

extern int op_failures;
void op_fail(const char *where, const char *format, ...);
const char *op_where(const ac_device *device, const op_instance *instance,
                     const op_variant *variant);

#define OP_EXPECT(where, condition, ...)           \
  do {                                             \
    if (!(condition)) op_fail(where, __VA_ARGS__); \
  } while (0)

/* Uniform in [low, high), rounded to float; advances the state. */
double op_random(uint64_t *state, double low, double high);
uint64_t op_seed(const char *text);

#endif
