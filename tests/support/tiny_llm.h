/* A folder of Hugging Face's form with a tiny language model: Llama's architecture, two blocks of
 * width 64, a tokenizer of 256 bytes and three special tokens, and ChatML's template. */
#ifndef AC_TESTS_TINY_LLM_H
#define AC_TESTS_TINY_LLM_H

#include <stdbool.h>

enum { TINY_LLM_VOCABULARY = 259, TINY_LLM_POSITIONS = 256 };

/* Files in `folder`, which is there. `seed`: of the weights; without `weights` there is a
 * configuration and a tokenizer alone. False: one could not be written. */
bool tiny_llm_write(const char *folder, unsigned seed, bool weights);

#endif
