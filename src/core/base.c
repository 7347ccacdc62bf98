#include <accrue/base.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *ac_version(void) {
  return TEXT(AC_VERSION_MAJOR) "." TEXT(AC_VERSION_MINOR) "." TEXT(AC_VERSION_PATCH);
}

static const struct {
  const char *name;
  size_t bytes;
} dtypes[AC_DTYPE_COUNT] = {
    [AC_F32] = {"f32", 4}, [AC_F16] = {"f16", 2}, [AC_BF16] = {"bf16", 2},
    [AC_I32] = {"i32", 4}, [AC_U8] = {"u8", 1},   [AC_I64] = {"i64", 8},
};

size_t ac_dtype_bytes(ac_dtype dtype) {
  return (unsigned)dtype < AC_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *ac_dtype_name(ac_dtype dtype) {
  return (unsigned)dtype < AC_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}
