/* Internals of the OpenCL backend: the state of an open device, and how an op's file launches
 * kernels.
 *
 * An op is an entry of its file (ac_cl_op). Its functions `run` and `run_joined` list the launches,
 * and serve `prepare` as well: while preparing, launches compile their kernel and stop there, so
 * whatever a run needs has been compiled by the same code that will ask for it. On the run path
 * nothing is allocated: kernels are found in a table, arguments live on the stack. */
#ifndef AC_OPENCL_OPENCL_H
#define AC_OPENCL_OPENCL_H

#include <CL/cl.h>

#include "backend/backend.h"
#include "core/integers.h"

typedef struct ac_cl_program {
  uint64_t key; /* hash of file and options */
  cl_program program;
  bool from_disk; /* not compiled by this process, so that it may be something else */
} ac_cl_program;

struct ac_cl_tile;
struct ac_cl_unit;

typedef struct ac_cl_compiled {
  uint64_t key; /* hash of file, options and kernel name */
  cl_kernel kernel;
} ac_cl_compiled;

typedef struct ac_opencl {
  cl_device_id device;
  cl_context context;     /* shared by what is open on this hardware, see context.c */
  cl_command_queue queue; /* in order */
  cl_command_queue transfers[AC_QUEUE_COUNT]; /* to and from the host; NULL: no transfers */
  ac_device_info info;
  uint64_t identity; /* hash of what a compiled program depends on, without its source */
  int group;         /* work-group size of elementwise kernels: 256, or 64 if those are too large */
  bool cpu;          /* the device is one */
  bool rounds_division; /* it is a GPU that divides and takes roots in f32 exactly, if told to */
  bool cache_programs;  /* on disk */
  bool clblast;         /* f32 products go through CLBlast */
  bool clblast_ready;   /* it has compiled its kernels */
  bool tune;            /* tiles of products are tuned */
  int64_t most_items;   /* of a kernel of elements, along a dimension */
  /* Indices of the chosen tiles plus 1, by storage type, transposes and float operands, size. */
  uint8_t tiles[AC_BF16 + 1][32][2];
  const struct ac_cl_unit *unit; /* matrix unit; NULL: none. See product/units.c */
  const char *unit_options;      /* of its kernel here */
  bool unit_emulated;
  const char *unit_refusal; /* why the last class that was refused was */
  /* AC_CL_UNIT_..., or 0: not tried, by storage type, transposes, the type and the kind of C. */
  uint8_t unit_classes[AC_BF16 + 1][16];
  /* For tests: changes what a tile, or a unit (then NULL), has computed in a trial, or returns
   * false, which counts as one that could not run; NULL. */
  bool (*distort)(const struct ac_cl_tile *tile, void *result, size_t bytes);

  bool preparing;
  const char *op;    /* the current one, for messages */
  ac_dtype storage;  /* its storage type, which launches compile kernels for */
  bool mark_flushed; /* ac_run_state's */

  ac_log_callback log; /* NULL: none */
  void *log_user;

  uint64_t objects;               /* memory objects made so far */
  uint64_t launches;              /* of kernels, so far */
  struct ac_cl_view *newest_view; /* of those not released yet, given back or not */
  ac_cl_program *programs;
  int program_count, program_capacity;
  ac_cl_compiled *kernels;
  int kernel_count, kernel_capacity;
} ac_opencl;

/* ---- devices.c ------------------------------------------------------------------------------- */

int ac_cl_device_count(void);
void ac_cl_device_explain(char *text, size_t size);
ac_status ac_cl_device_describe(int index, ac_device_info *info);

/* Whether the name is in the device's list. */
bool ac_cl_has_extension(cl_device_id device, const char *name);

/* The device at `index` of the stable order, GPUs first. */
ac_status ac_cl_device_at(int index, cl_platform_id *platform, cl_device_id *device);

/* ---- context.c -------------------------------------------------------------------------------
 */

/* The context of a piece of hardware, made for the first that asks. To be released once for each
 * time it was acquired, when what was made in it is. From any thread. */
ac_status ac_cl_context_acquire(cl_platform_id platform, cl_device_id device, cl_context *context);
void ac_cl_context_release(cl_context context);
/* Marks a context as failed: later devices get another one. */
void ac_cl_context_failed(cl_context context);

/* ---- error.c --------------------------------------------------------------------------------- */

/* "CL_OUT_OF_RESOURCES"; NULL for a code that is not OpenCL's own. Static. */
const char *ac_cl_error_name(cl_int error);

/* Sets the sentence "opencl: WHAT failed with NAME" and returns the status that fits. Marks the
 * context of `cl`, unless that is NULL, as failed where the error may have left it unusable. */
ac_status ac_cl_fail(const ac_opencl *cl, cl_int error, const char *what);
/* The mark alone. */
void ac_cl_note_error(const ac_opencl *cl, cl_int error);

/* ---- transfers.c: the backend's functions of these names
 * ----------------------------------------- */

ac_status ac_cl_allocate_host(void *state, uint64_t bytes, ac_host_memory *memory);
void ac_cl_release_host(void *state, ac_host_memory *memory);
ac_status ac_cl_transfer_in(void *state, void *handle, const void *data, uint64_t bytes);
ac_status ac_cl_transfer_out(void *state, const void *handle, void *data, uint64_t bytes);
ac_status ac_cl_order(void *state, ac_queue first, ac_queue then);
/* Waits for all transfers. */
cl_int ac_cl_finish_transfers(const ac_opencl *cl);
void ac_cl_release_transfers(ac_opencl *cl);

/* ---- lane.c: what backend.h says ------------------------------------------------------------ */

ac_status ac_cl_open_lane(void *state, int marks, void **lane);
void ac_cl_close_lane(void *lane);
ac_status ac_cl_mark(void *lane, int mark);
ac_status ac_cl_has_passed(void *lane, int mark, bool *passed);
ac_status ac_cl_lane_upload(void *lane, void *handle, uint64_t offset, const void *data,
                            uint64_t bytes);
ac_status ac_cl_lane_download(void *lane, const void *handle, uint64_t offset, void *data,
                              uint64_t bytes);

/* ---- program.c ------------------------------------------------------------------------------- */

/* Source that follows a file of cl/, written when it is compiled: by key, the same text. It is cut
 * off, and then does not compile, beyond AC_CL_MAX_WRITTEN bytes. Without `write`, `of` is it. */
typedef struct ac_cl_writer {
  uint64_t key;
  void (*write)(const void *of, char *text, size_t size);
  const void *of;
} ac_cl_writer;
enum { AC_CL_MAX_WRITTEN = 1 << 16 };

/* A kernel of FILE.cl in cl/, and of what is written for it unless `writer` is NULL, with these
 * options. Its program is in memory, or in the disk cache, or is compiled now. A program from the
 * disk that does not have this kernel is compiled. If the kernel itself cannot be made, *error says
 * why. */
ac_status ac_cl_kernel_create(ac_opencl *cl, const char *file, const char *options,
                              const ac_cl_writer *writer, const char *name, cl_kernel *kernel,
                              cl_int *error);
/* Hash of all that a binary compiled from FILE.cl in cl/ with this text as options depends on. */
uint64_t ac_cl_program_key(const ac_opencl *cl, const char *file, const char *options);
/* Whether to keep a platform's programs on disk. */
bool ac_cl_cache_wanted(const char *platform);
void ac_cl_programs_release(ac_opencl *cl);
/* Logs what may take seconds: "opencl:0: compiling gemm...". */
void ac_cl_announce(const ac_opencl *cl, const char *doing, const char *what);

enum { AC_CL_MAX_OPTIONS = 512 };

/* ---- launch.c -------------------------------------------------------------------------------- */

/* A kernel of FILE.cl in cl/; options beyond the ones all files get (GROUP, storage type), or NULL.
 */
typedef struct ac_cl_kernel {
  const char *file, *name, *options;
} ac_cl_kernel;

typedef struct ac_cl_grid {
  size_t global[3], local[3];
} ac_cl_grid;

/* One that is larger than its value's place lies elsewhere. */
typedef struct ac_cl_argument {
  size_t size;
  union {
    cl_mem buffer;
    cl_int i;
    cl_uint u;
    cl_long l;
    cl_float f;
    cl_uint2 u2;
    float floats[8];
    const void *elsewhere;
    cl_long longs[8];
  } value;
} ac_cl_argument;

#define AC_CL_BUFFER(handle) ((ac_cl_argument){sizeof(cl_mem), {.buffer = (cl_mem)(handle)}})
/* An operand's memory, NULL where it is absent. */
#define AC_CL_OPERAND(operand) AC_CL_BUFFER((operand).count ? (operand).data : NULL)
#define AC_CL_INT(x) ((ac_cl_argument){sizeof(cl_int), {.i = (cl_int)(x)}})
#define AC_CL_UINT(x) ((ac_cl_argument){sizeof(cl_uint), {.u = (cl_uint)(x)}})
#define AC_CL_LONG(x) ((ac_cl_argument){sizeof(cl_long), {.l = (cl_long)(x)}})
#define AC_CL_FLOAT(x) ((ac_cl_argument){sizeof(cl_float), {.f = (cl_float)(x)}})
/* Eight of them, a float8. */
#define AC_CL_FLOATS(x)                \
  ((ac_cl_argument){8 * sizeof(float), \
                    {.floats = {(x)[0], (x)[1], (x)[2], (x)[3], (x)[4], (x)[5], (x)[6], (x)[7]}}})
/* An array of more than 32 bytes, which lives as long as the launch takes. */
#define AC_CL_LARGE(x) ((ac_cl_argument){sizeof(x), {.elsewhere = (x)}})
/* The same of a struct. */
#define AC_CL_LARGE_OF(x) ((ac_cl_argument){sizeof(x), {.elsewhere = &(x)}})
/* Eight of these, a long8. */
#define AC_CL_LONGS(x)                   \
  ((ac_cl_argument){8 * sizeof(cl_long), \
                    {.longs = {(x)[0], (x)[1], (x)[2], (x)[3], (x)[4], (x)[5], (x)[6], (x)[7]}}})
/* A 64-bit seed as the two words of a Philox key. */
#define AC_CL_SEED(x) \
  ((ac_cl_argument){sizeof(cl_uint2), {.u2 = {{(cl_uint)(x), (cl_uint)((uint64_t)(x) >> 32)}}}})

/* Compiles the kernel where that has not been done; queues it unless preparing. An empty grid does
 * nothing. */
ac_status ac_cl_launch(ac_opencl *cl, ac_cl_kernel kernel, ac_cl_grid grid,
                       const ac_cl_argument *arguments, int count);
/* The same of a kernel that is written for what it has to do. */
ac_status ac_cl_launch_written(ac_opencl *cl, ac_cl_kernel kernel, const ac_cl_writer *writer,
                               ac_cl_grid grid, const ac_cl_argument *arguments, int count);
#define AC_CL_LAUNCH(cl, kernel, grid, ...)                             \
  ac_cl_launch(cl, kernel, grid, (const ac_cl_argument[]){__VA_ARGS__}, \
               (int)(sizeof((const ac_cl_argument[]){__VA_ARGS__}) / sizeof(ac_cl_argument)))

/* One work-item for each of n elements, in groups of GROUP: element_id() says which. */
ac_cl_grid ac_cl_elements(const ac_opencl *cl, int64_t n);
/* `groups` work-groups of x * y items. */
ac_cl_grid ac_cl_groups(int64_t groups, int x, int y);

/* Rows of this length are reduced by work-groups of ROW_GROUP items: 64 for short rows, 256 for
 * others. These options tell a file with such kernels the number. And the grid with a work-group
 * for each row. */
bool ac_cl_is_short_row(const ac_opencl *cl, int64_t length);
const char *ac_cl_row_options(const ac_opencl *cl, int64_t length);
ac_cl_grid ac_cl_rows(const ac_opencl *cl, int64_t rows, int64_t length);

/* A kernel of single elements, which takes the inputs that there are, the output and the number of
 * elements. */
ac_status ac_cl_map(ac_opencl *cl, ac_cl_kernel kernel, const ac_op_args *args);

/* A kernel of so many rows of this length, which takes the inputs that there are, the output, the
 * length and whether to add. */
ac_status ac_cl_map_rows(ac_opencl *cl, ac_cl_kernel kernel, const ac_op_args *args, int64_t rows,
                         int64_t length);

/* Work-group of kernels that take 32 columns at a time: 32 x this. */
int ac_cl_lanes(const ac_opencl *cl);

/* Copies, unless both are the same view. */
ac_status ac_cl_copy(ac_opencl *cl, void *destination, const void *source, uint64_t bytes);
ac_status ac_cl_zero(ac_opencl *cl, void *handle, uint64_t bytes);

/* ---- ops ------------------------------------------------------------------------------------- */

/* Ops that one launch may run at most, and the elements of one that is small enough to be joined:
 * sixteen for each item of a group. */
enum { AC_CL_JOINED = 8 };
static inline int64_t ac_cl_small(const ac_opencl *cl) {
  return 16 * (int64_t)cl->group;
}
/* Work-groups that go over n elements together, each item over every so many-th: one of what is
 * small. */
static inline int64_t ac_cl_some_groups(const ac_opencl *cl, int64_t n) {
  return ac_smaller(ac_ceil_div(n, ac_cl_small(cl)), 1024);
}

/* An op's file defines `const ac_cl_op ac_cl_op_NAME` for each of its ops. */
typedef struct ac_cl_op {
  ac_status (*run)(ac_opencl *cl, const ac_op_args *args);
  /* Runs up to AC_CL_JOINED of them; `joins` has said yes to all of them. Each operand is there for
   * all or for none, with one dtype. NULL: none is joined. */
  ac_status (*run_joined)(ac_opencl *cl, const ac_op_args *const *args, int count);
  bool (*joins)(const ac_opencl *cl, const ac_op_args *args);
  /* Bytes; NULL: none. */
  uint64_t (*workspace)(ac_opencl *cl, const ac_op_args *args);
  /* Whether its kernels can compute this, in addition to what all ops ask for; NULL: they can. */
  bool (*fits)(const ac_op_args *args);
} ac_cl_op;

#endif
