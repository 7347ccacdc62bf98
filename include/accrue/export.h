/** @file
 * Writing a language model for other programs: a folder for Hugging Face's transformers, or a GGUF
 * file for llama.cpp. Either may be made of either. */
#ifndef ACCRUE_EXPORT_H
#define ACCRUE_EXPORT_H

#include <accrue/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** How the matrices of a model are stored. In a GGUF file, vectors are always f32, and a matrix
 * with rows that are not whole blocks is f16 instead of in blocks. */
typedef enum ac_export_storage {
  /** As in the model's own file. What is in blocks becomes f16 in a folder. A changed matrix in
   * blocks into which the library does not round (Q5_0 to Q6_K) becomes Q8_0. */
  AC_EXPORT_AS_IT_IS = 0,
  AC_EXPORT_F32,  /**< f32. */
  AC_EXPORT_F16,  /**< f16. */
  AC_EXPORT_BF16, /**< bf16. */
  AC_EXPORT_Q8_0, /**< Blocks of 8 bits. Only in a GGUF file. */
  AC_EXPORT_Q4_0  /**< Blocks of 4 bits; embedding and head in Q8_0. Only in a GGUF file. */
} ac_export_storage;

/** What to write, and from where. */
typedef struct ac_export_desc {
  ac_export_storage storage; /**< How matrices are stored. */
  /** Gives elements [first, first + count) of the parameter `name`, in the order that Hugging Face
   * has, for example with an adapter added. NULL: all are those of the model's file. */
  ac_status (*read)(void *user, const char *name, int64_t first, int64_t count, float *data);
  /** Whether `read` gives other values than the model's file. Others are copied from there, blocks
   * as they are. NULL: `read` is asked for all. */
  bool (*changed)(void *user, const char *name);
  void *user; /**< Passed to both functions. */
} ac_export_desc;

/** Writes a folder: model.safetensors, config.json, generation_config.json and the files of the
 * tokenizer. From a folder, config.json is that folder's with the new dtype in it, and the other
 * files are copied. From a GGUF file all of them are made of its metadata.
 *
 * The folder is made if it is missing. config.json is written last, so a folder is not taken
 * for a model if writing it failed. `desc` may be NULL. Fails with AC_ERROR_UNSUPPORTED if the
 * folder's files could not say what the model is. */
AC_API ac_status ac_model_export_folder(ac_model *model, const char *path,
                                        const ac_export_desc *desc);

/** The text of a config.json for the model with weights of this dtype: that of its folder, or one
 * made of a GGUF file's metadata. free() frees it. With ac_model_export_files and
 * ac_model_file_write it makes a folder of weights that were trained. */
AC_API ac_status ac_model_config_json(char **json, const ac_model *model, ac_dtype dtype);
/** Writes the other files of a folder: generation_config.json and those of the tokenizer, copied
 * from the model's folder or made of a GGUF file's metadata. The folder must be there. */
AC_API ac_status ac_model_export_files(const ac_model *model, const char *path);

/** Writes a GGUF file, as ac_gguf_write does. From a GGUF file its metadata are kept, with their
 * types. From a folder they are made of its config.json, tokenizer.json and chat template, and rows
 * are arranged as llama.cpp has them.
 *
 * `desc` may be NULL. Fails with AC_ERROR_UNSUPPORTED if llama.cpp has no architecture for the
 * model, or no name for how its tokenizer cuts texts. */
AC_API ac_status ac_model_export_gguf(ac_model *model, const char *path,
                                      const ac_export_desc *desc);

/** One adapter of a LoRA: A [rank, in] and B [out, rank] of the layer `name`, as PEFT has them. */
typedef struct ac_export_adapter {
  const char *name; /**< Such as "model.layers.0.self_attn.q_proj". */
  int64_t rank;     /**< Rows of A. */
  const float *a;   /**< [rank, in]. */
  const float *b;   /**< [out, rank]. */
} ac_export_adapter;

/** Writes a LoRA as a GGUF file that llama.cpp applies to the model: in f32, scaled by
 * `alpha` over each adapter's rank. */
AC_API ac_status ac_adapter_export_gguf(const ac_model *model, const char *path, double alpha,
                                        const ac_export_adapter *adapters, int count);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
