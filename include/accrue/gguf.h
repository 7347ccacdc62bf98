/** @file
 * GGUF files, the format of llama.cpp: writing them, and reading their typed metadata. Tensors are
 * read by model_file.h. */
#ifndef ACCRUE_GGUF_H
#define ACCRUE_GGUF_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** The type of a metadata value. The numbers are the format's. */
typedef enum ac_gguf_type {
  AC_GGUF_U8 = 0,   /**< uint8_t. */
  AC_GGUF_I8 = 1,   /**< int8_t. */
  AC_GGUF_U16 = 2,  /**< uint16_t. */
  AC_GGUF_I16 = 3,  /**< int16_t. */
  AC_GGUF_U32 = 4,  /**< uint32_t. */
  AC_GGUF_I32 = 5,  /**< int32_t. */
  AC_GGUF_F32 = 6,  /**< float. */
  AC_GGUF_BOOL = 7, /**< bool. */
  AC_GGUF_TEXT = 8, /**< const char *, UTF-8. */
  AC_GGUF_U64 = 10, /**< uint64_t. */
  AC_GGUF_I64 = 11, /**< int64_t. */
  AC_GGUF_F64 = 12  /**< double. */
} ac_gguf_type;

/** A metadata value: one element, or an array of elements of one type. */
typedef struct ac_gguf_value {
  const char *key;   /**< Its key, such as "llama.block_count". Each key is used once. */
  ac_gguf_type type; /**< The type of its elements. */
  bool array;        /**< Whether it is an array. */
  int64_t count;     /**< Elements of an array. 1 if it is none. */
  const void *data;  /**< [count] elements of the C type that ac_gguf_type names. */
} ac_gguf_value;

/** How a tensor is stored. The numbers are ggml's. */
typedef enum ac_ggml_type {
  AC_GGML_F32 = 0,   /**< f32. */
  AC_GGML_F16 = 1,   /**< f16. */
  AC_GGML_Q4_0 = 2,  /**< Blocks of 32 elements in 4 bits with a scale: 18 bytes. */
  AC_GGML_Q4_1 = 3,  /**< Blocks of 32 elements in 4 bits with scale and minimum: 20 bytes. */
  AC_GGML_Q5_0 = 6,  /**< Blocks of 32 elements in 5 bits with a scale: 22 bytes. */
  AC_GGML_Q5_1 = 7,  /**< Blocks of 32 elements in 5 bits with scale and minimum: 24 bytes. */
  AC_GGML_Q8_0 = 8,  /**< Blocks of 32 elements in 8 bits with a scale: 34 bytes. */
  AC_GGML_Q4_K = 12, /**< Blocks of 256 elements: 144 bytes. */
  AC_GGML_Q5_K = 13, /**< Blocks of 256 elements: 176 bytes. */
  AC_GGML_Q6_K = 14, /**< Blocks of 256 elements: 210 bytes. */
  AC_GGML_BF16 = 30  /**< bf16. */
} ac_ggml_type;

/** A tensor to write. */
typedef struct ac_gguf_tensor {
  const char *name;  /**< Its name, in UTF-8, of at most 63 bytes, as llama.cpp has room for. */
  ac_ggml_type type; /**< How it is stored. */
  /** The source gives blocks as they are stored, not floats. Needed for Q5_0, Q5_1, Q4_K, Q5_K and
   * Q6_K, into which floats are not rounded here. */
  bool stored;
  int rank;         /**< Number of dimensions, 1 to 4. */
  int64_t shape[4]; /**< Its dimensions, row-major. Rows are whole blocks. */
} ac_gguf_tensor;

/** Copies elements [first, first + count) of tensor `index` to `data`: floats, or, if the tensor is
 * `stored`, their bytes. Then they are whole blocks. */
typedef ac_status (*ac_gguf_source)(void *user, int index, int64_t first, int64_t count,
                                    void *data);

/** Writes a GGUF file of version 3 with the values and tensors in the given order. Floats are
 * rounded to a tensor's type: to nearest even for f16 and bf16, for blocks as ggml's reference
 * does. They are asked for in pieces, so no second copy of the model is needed.
 *
 * The data are aligned to the value general.alignment, a u32, if it is given, else to 32 bytes.
 * Fails with AC_ERROR_NOT_FINITE if a float is not finite, or is too large for its tensor's type.
 * On any failure the file that was at `path` stays as it was, as with ac_model_file_write. */
AC_API ac_status ac_gguf_write(const char *path, const ac_gguf_tensor *tensors, int tensor_count,
                               const ac_gguf_value *values, int value_count, ac_gguf_source source,
                               void *user);

/** The typed metadata of a GGUF file. */
typedef struct ac_gguf_metadata ac_gguf_metadata;

/** Reads the metadata of a GGUF file, also arrays, such as the tokens of a vocabulary. Texts that
 * have a 0 in them are left out, and so are arrays with such a text. Bytes of texts that are not
 * UTF-8 stay as they are.
 *
 * Fails with AC_ERROR_FORMAT if the file is not a GGUF file, or malformed. */
AC_API ac_status ac_gguf_metadata_open(ac_gguf_metadata **metadata, const char *path);

/** Frees metadata and all their values. */
AC_API void ac_gguf_metadata_close(ac_gguf_metadata *metadata);

/** How many values there are. */
AC_API int ac_gguf_metadata_count(const ac_gguf_metadata *metadata);

/** A value, in the order of the file. Valid until the metadata are closed; NULL if there is none
 * with this index. */
AC_API const ac_gguf_value *ac_gguf_metadata_at(const ac_gguf_metadata *metadata, int index);

/** The value with this key; NULL if there is none. */
AC_API const ac_gguf_value *ac_gguf_metadata_find(const ac_gguf_metadata *metadata,
                                                  const char *key);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
