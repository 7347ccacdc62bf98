/* The CPU backend: memory is the host's, operands' handles are plain pointers, `run` is done when
 * it returns.
 *
 * When a device is opened, the kernels of the best instruction set that both the build and the CPU
 * have are chosen; ACCRUE_ISA asks for a lower one, for tests: base, v3 or v4 (levels of x86-64),
 * or base, sve256 or sve512 (AArch64's NEON, and SVE of so many bits, for a CPU with vectors of
 * that length). ACCRUE_CPU_STREAM=BYTES replaces the size of the last-level cache when the backend
 * decides what is written past the caches (blocks.c); 0: nothing is. ACCRUE_CPU_SERIAL=ELEMENTS,
 * for tests, is the largest work for which a loop is not shared out among threads; 0: all loops are
 * shared out. ACCRUE_PRODUCTS=CLASS asks for one way to multiply bf16 (product/dot.h): widened,
 * tiles, vdpbf16ps or bfmmla; what the CPU does not have is emulated, which is slow. */
#include "backend/backend.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/product/blas.h"
#include "backend/cpu/product/dot.h"
#include "backend/cpu/shared/kernels.h"
#include "core/error.h"
#include "core/platform/memory.h"
#include "core/platform/process.h"
#include "core/platform/processors.h"
#include "core/platform/threads.h"

enum { ALIGNMENT = 64, MAX_THREADS = 1024, SERIAL = 8192 };
/* Blocks of so many bytes are copied by all threads. Less, such as the pieces of a state file,
 * takes one of them less time than the others may take to come where the machine has other work. */
enum { THREADED_BYTES = 4 << 20 };

/* ---- instruction sets ------------------------------------------------------------------------ */

typedef struct isa {
  const char *name, *text;
  const ac_cpu_kernel *const *kernels;
  bool (*available)(void);
} isa;

static bool always(void) {
  return true;
}

#ifdef AC_CPU_HAVE_V3
/* F16C, which v3 has as well, cannot be asked for with every compiler; no CPU has AVX2 without. */
static bool has_v3(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
extern const ac_cpu_kernel *const ac_cpu_kernels_v3[AC_OP_COUNT];
#endif
#ifdef AC_CPU_HAVE_V4
static bool has_v4(void) {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
extern const ac_cpu_kernel *const ac_cpu_kernels_v4[AC_OP_COUNT];
#endif
#ifdef AC_CPU_HAVE_SVE256
static bool has_sve256(void) {
  return ac_scalable_vector_bits() == 256;
}
extern const ac_cpu_kernel *const ac_cpu_kernels_sve256[AC_OP_COUNT];
#endif
#ifdef AC_CPU_HAVE_SVE512
static bool has_sve512(void) {
  return ac_scalable_vector_bits() == 512;
}
extern const ac_cpu_kernel *const ac_cpu_kernels_sve512[AC_OP_COUNT];
#endif
extern const ac_cpu_kernel *const ac_cpu_kernels_base[AC_OP_COUNT];

#ifdef __aarch64__
#define BASE "NEON"
#else
#define BASE "baseline instructions"
#endif

/* From the best down. */
static const isa isas[] = {
#ifdef AC_CPU_HAVE_V4
    {"v4", "AVX-512", ac_cpu_kernels_v4, has_v4},
#endif
#ifdef AC_CPU_HAVE_V3
    {"v3", "AVX2", ac_cpu_kernels_v3, has_v3},
#endif
#ifdef AC_CPU_HAVE_SVE512
    {"sve512", "SVE of 512 bits", ac_cpu_kernels_sve512, has_sve512},
#endif
#ifdef AC_CPU_HAVE_SVE256
    {"sve256", "SVE of 256 bits", ac_cpu_kernels_sve256, has_sve256},
#endif
    {"base", BASE, ac_cpu_kernels_base, always},
};

static const isa *choose_isa(void) {
  const char *limit = getenv("ACCRUE_ISA");
  size_t count = sizeof isas / sizeof *isas, first = 0;
#if defined(AC_CPU_HAVE_V3)
  __builtin_cpu_init();
#endif
  for (size_t i = 0; limit && i < count; i++)
    if (!strcmp(limit, isas[i].name)) first = i;
  while (!isas[first].available()) first++;
  return &isas[first];
}

/* Chooses the class that is asked for, or the best, unless older instructions are asked for. */
static const ac_dot_class *choose_dot(void) {
  const char *name = getenv("ACCRUE_PRODUCTS"), *limit = getenv("ACCRUE_ISA");
  if (name && *name) return ac_dot_choose(name);
  return limit && *limit && strcmp(limit, isas[0].name) != 0 ? NULL : ac_dot_choose(NULL);
}

/* ---- the device ------------------------------------------------------------------------------ */

typedef struct device {
  ac_cpu_context context;
  const isa *isa;
  bool own_allocator;
  ac_allocator allocator;
  uint64_t objects;
} device;

static int count_devices(void) {
  return 1;
}

static int default_threads(void) {
  const char *text = getenv("OMP_NUM_THREADS");
  long threads = text ? strtol(text, NULL, 10) : 0;
  return threads > 0 && threads <= MAX_THREADS ? (int)threads : ac_processor_count();
}

/* Kernels have up to 64 KiB on the stack at once, and the functions that they call a little
 * more. */
enum { STACK_BYTES = 128 << 10 };

/* A size as OpenMP's variables say it: a number, and B, K, M or G; without a letter K. */
static bool read_stack_bytes(const char *text, uint64_t *bytes) {
  static const char letters[] = "BKMG";
  char *end;
  if (!text || !isdigit((unsigned char)text[strspn(text, " ")])) return false;
  const uint64_t number = strtoull(text, &end, 10);
  end += strspn(end, " ");
  const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : letters + 1;
  if (!letter || (*end && end[1 + strspn(end + 1, " ")])) return false;
  const int shift = 10 * (int)(letter - letters);
  *bytes = number > UINT64_MAX >> shift ? UINT64_MAX : number << shift;
  return true;
}

static ac_status check_stack(int threads) {
  const char *own = getenv("OMP_STACKSIZE"), *gnu = getenv("GOMP_STACKSIZE");
  const char *name = own ? "OMP_STACKSIZE" : "GOMP_STACKSIZE";
  uint64_t bytes = 0;
  if (threads == 1) return AC_OK; /* no others are started */
  const bool said = read_stack_bytes(own ? own : gnu, &bytes);
  if (!said) bytes = ac_thread_stack_bytes();
  if (!bytes || bytes >= STACK_BYTES) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "cpu: threads have a stack of %llu bytes (%s), and need %d; set OMP_STACKSIZE to "
                 "128K or more",
                 (unsigned long long)bytes, said ? name : "the system's default", (int)STACK_BYTES);
}

static uint64_t cache_bytes(void) {
  const char *text = getenv("ACCRUE_CPU_STREAM");
  return text && *text ? strtoull(text, NULL, 10) : ac_cache_bytes();
}

static int64_t serial_elements(void) {
  const char *text = getenv("ACCRUE_CPU_SERIAL");
  return text && *text ? strtoll(text, NULL, 10) : SERIAL;
}

static bool has_half_arithmetic(void) {
#if defined(AC_CPU_HAVE_V4) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
  return __builtin_cpu_supports("avx512fp16");
#else
  return false;
#endif
}

static ac_status describe(int index, ac_device_info *info) {
  (void)index;
  const isa *chosen = choose_isa();
  const ac_dot_class *dot = choose_dot();
  const ac_blas *blas = NULL;
  const ac_kept_error kept = ac_error_keep();
  memset(info, 0, sizeof *info);
  snprintf(info->id, sizeof info->id, "cpu");
  snprintf(info->backend, sizeof info->backend, "cpu");
  if (!ac_processor_name(info->name, sizeof info->name))
    snprintf(info->name, sizeof info->name, "CPU");
  if (ac_blas_load(&blas) == AC_OK)
    snprintf(info->driver, sizeof info->driver, "OpenBLAS %s %s, %s", blas->version, blas->core,
             chosen->text);
  else snprintf(info->driver, sizeof info->driver, "OpenBLAS not loaded, %s", chosen->text);
  ac_error_restore(&kept);
  snprintf(info->bf16_products, sizeof info->bf16_products, "%s", dot ? dot->text : "as floats");
  info->bf16_arithmetic = dot && !dot->emulated;
  info->memory_bytes = ac_physical_memory();
  info->alignment = ALIGNMENT;
  info->compute_units = (uint32_t)default_threads();
  info->half_arithmetic = has_half_arithmetic();
  return AC_OK;
}

static void warn_about_kernels(const ac_blas *blas, const ac_device_desc *desc) {
  if (!desc || !desc->log || !blas->wanted[0] || !strcmp(blas->wanted, blas->core)) return;
  char line[160];
  snprintf(line, sizeof line,
           "cpu: OpenBLAS runs its %s kernels, not %s's: the process had loaded it before",
           blas->core, blas->wanted);
  desc->log(desc->log_user, AC_LOG_WARNING, line);
}

/* After a fork the child has only the thread that forked, and would wait for the others of its team
 * for ever. So that thread releases its team before it forks, and parent and child make new ones.
 * (LLVM's OpenMP, which has no such function under clang, does it by itself.) */
#if defined(_OPENMP) && defined(__GNUC__) && __GNUC__ >= 9
static void give_up_team(void) {
  omp_pause_resource_all(omp_pause_soft);
}
static void prepare_for_forks(void) {
  ac_before_fork(give_up_team);
}
#else
static void prepare_for_forks(void) {}
#endif

static ac_status open_device(void **state, int index, const ac_device_desc *desc,
                             ac_device_info *info) {
  const ac_blas *blas;
  AC_TRY(ac_blas_load(&blas));
  int threads = desc && desc->threads ? desc->threads : default_threads();
  if (threads < 1 || threads > MAX_THREADS)
    return ac_fail(AC_ERROR_ARGUMENT, "cpu: %d threads were asked for; 1 to %d can be had", threads,
                   (int)MAX_THREADS);
  AC_TRY(check_stack(threads));
  AC_TRY(ac_blas_reserve(blas, threads));
  device *d = calloc(1, sizeof *d);
  if (!d) return ac_fail(AC_ERROR_MEMORY, "cpu: no memory to open the device");
  static ac_once prepared;
  ac_call_once(&prepared, prepare_for_forks);
  d->context = (ac_cpu_context){.threads = threads,
                                .serial = serial_elements(),
                                .cache_bytes = cache_bytes(),
                                .blas = blas,
                                .dot = choose_dot()};
  d->isa = choose_isa();
  if (desc && desc->allocator) {
    d->own_allocator = true;
    d->allocator = *desc->allocator;
  }
  warn_about_kernels(blas, desc);
  describe(index, info);
  info->compute_units = (uint32_t)threads;
  *state = d;
  return AC_OK;
}

static void close_device(void *state) {
  free(state);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void release(void *state, void *chunk, uint64_t bytes) {
  device *d = state;
  if (!chunk) return;
  if (d->own_allocator) d->allocator.release(d->allocator.user, chunk, (size_t)bytes);
  else ac_pages_release(chunk, (size_t)bytes);
}

static ac_status allocate(void *state, uint64_t bytes, void **chunk) {
  device *d = state;
  void *memory = NULL;
  if (bytes <= SIZE_MAX)
    memory = d->own_allocator ? d->allocator.allocate(d->allocator.user, (size_t)bytes, ALIGNMENT)
                              : ac_pages_allocate((size_t)bytes);
  char text[32];
  if (!memory)
    return ac_fail(AC_ERROR_MEMORY, "cpu: %s could not be allocated",
                   ac_format_bytes(text, sizeof text, bytes));
  if ((uintptr_t)memory % ALIGNMENT) {
    release(state, memory, bytes);
    return ac_fail(AC_ERROR_ARGUMENT,
                   "cpu: the allocator returned memory at %p, which is not aligned to the %d bytes "
                   "that were asked for; its function allocate must respect `alignment`",
                   memory, ALIGNMENT);
  }
  d->objects++;
  *chunk = memory;
  return AC_OK;
}

static ac_status view(void *state, void *chunk, uint64_t offset, uint64_t bytes, void **handle) {
  (void)state, (void)bytes;
  *handle = (char *)chunk + offset;
  return AC_OK;
}

static void release_view(void *state, void *handle) {
  (void)state, (void)handle;
}

static void transfer_range(const ac_op_args *args, int64_t first, int64_t last) {
  const char *source = args->in[0].data;
  char *destination = args->out[0].data;
  if (source) memcpy(destination + first, source + first, (size_t)(last - first));
  else memset(destination + first, 0, (size_t)(last - first));
}

/* Copies, or zeroes if `source` is NULL; large blocks by all threads, for one core alone does not
 * reach the memory's bandwidth. */
static void transfer(const device *d, char *destination, const char *source, uint64_t bytes) {
  ac_op_args args = {.in = {{.data = (void *)(uintptr_t)source}}, .out = {{.data = destination}}};
  if (bytes < THREADED_BYTES) transfer_range(&args, 0, (int64_t)bytes);
  else ac_cpu_for(&d->context, &args, (int64_t)bytes, 1, transfer_range);
}

static ac_status upload(void *state, void *handle, uint64_t offset, const void *data,
                        uint64_t bytes) {
  transfer(state, (char *)handle + offset, data, bytes);
  return AC_OK;
}

static ac_status download(void *state, const void *handle, uint64_t offset, void *data,
                          uint64_t bytes) {
  transfer(state, data, (const char *)handle + offset, bytes);
  return AC_OK;
}

static ac_status zero(void *state, void *handle, uint64_t bytes) {
  transfer(state, handle, NULL, bytes);
  return AC_OK;
}

static ac_status copy(void *state, void *destination, const void *source, uint64_t bytes) {
  transfer(state, destination, source, bytes);
  return AC_OK;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static uint32_t rounds(void *state, ac_op op, ac_dtype storage) {
  const device *d = state;
  return d->context.dot && storage == AC_BF16 ? d->isa->kernels[op]->rounds : 0;
}

static uint32_t decodes(void *state, ac_op op, ac_dtype storage) {
  (void)storage;
  return ((const device *)state)->isa->kernels[op]->decodes;
}

static bool supports(void *state, const ac_op_args *args) {
  const ac_cpu_kernel *kernel = ((const device *)state)->isa->kernels[args->op];
  const ac_dtype storage = ac_op_storage(args);
  return ac_op_dtypes_valid(args, rounds(state, args->op, storage), kernel->decodes) &&
         (!kernel->fits || kernel->fits(args));
}

static uint64_t workspace(void *state, const ac_op_args *args) {
  const device *d = state;
  const ac_cpu_kernel *kernel = d->isa->kernels[args->op];
  return kernel->workspace ? kernel->workspace(&d->context, args) : 0;
}

static ac_status prepare(void *state, const ac_op_args *args) {
  (void)state, (void)args;
  return AC_OK;
}

static ac_status run(void *state, const ac_op_args *args) {
  const device *d = state;
  const ac_cpu_kernel *kernel = d->isa->kernels[args->op];
  if (kernel->run_caller) return kernel->run_caller(&d->context, args);
  kernel->run(&d->context, args);
  return AC_OK;
}

static ac_status finish(void *state) {
  (void)state;
  return AC_OK;
}

static uint64_t objects(void *state) {
  return ((device *)state)->objects;
}

static uint64_t library_bytes(void *state) {
  return ac_blas_bytes(((device *)state)->context.threads);
}

const ac_backend ac_backend_cpu = {
    .version = AC_BACKEND_VERSION,
    .name = "cpu",
    .is_host = true,
    .count = count_devices,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .allocate = allocate,
    .release = release,
    .view = view,
    .release_view = release_view,
    .upload = upload,
    .download = download,
    .zero = zero,
    .copy = copy,
    .supports = supports,
    .rounds = rounds,
    .decodes = decodes,
    .workspace = workspace,
    .prepare = prepare,
    .run = run,
    .finish = finish,
    .objects = objects,
    .library_bytes = library_bytes,
};
