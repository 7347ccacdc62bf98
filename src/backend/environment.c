#include "backend/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

typedef struct variable {
  const char *name, *values; /* between spaces; NULL: a whole number */
} variable;

static const variable variables[] = {
    {"ACCRUE_ISA", "base v3 v4 sve256 sve512"},
    {"ACCRUE_PRODUCTS", "widened tiles vdpbf16ps bfmmla mma dpas wmma mfma"},
    {"ACCRUE_CPU_STREAM", NULL},
    {"ACCRUE_CPU_SERIAL", NULL},
    {"ACCRUE_CLBLAST", "0 1"},
    {"ACCRUE_TUNE", "0 1"},
    {"ACCRUE_OPENCL_CPU", "0 1"},
    {"ACCRUE_OPENCL_ITEMS", NULL},
    {"ACCRUE_OWN_MEMORY", "0 1"},
    {"ACCRUE_PROGRAM_CACHE", "0 1"},
};

static bool is_among(const char *values, const char *value) {
  const size_t length = strlen(value);
  if (strchr(value, ' ')) return false;
  for (const char *at = values; (at = strstr(at, value)); at++)
    if ((at == values || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
  return false;
}

static bool is_whole(const char *value) {
  return strlen(value) <= 18 && value[strspn(value, "0123456789")] == 0;
}

ac_status ac_environment_check(void) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const variable *v = &variables[i];
    const char *value = getenv(v->name);
    if (!value || !*value || (v->values ? is_among(v->values, value) : is_whole(value))) continue;
    return ac_fail(AC_ERROR_ARGUMENT, "the environment variable %s is \"%s\"; it can be %s",
                   v->name, value, v->values ? v->values : "a whole number");
  }
  return AC_OK;
}
