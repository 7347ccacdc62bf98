/* Processors: what they are called, how many there are, their cache, and which of their
 * instructions the system lets this process use. */
#ifndef AC_CORE_PLATFORM_PROCESSORS_H
#define AC_CORE_PLATFORM_PROCESSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "AMD EPYC 9654"; false: unknown. */
bool ac_processor_name(char *name, size_t size);
int ac_processor_count(void); /* usable by this process */
/* Which they are: bit p % 64 of word p / 64 is processor p. Processors beyond the words are left
 * out. False: unknown. */
bool ac_processors(uint64_t *words, int count);
/* How many the process that started this one may use; 0: unknown. */
int ac_processors_of_parent(void);
uint64_t ac_cache_bytes(void); /* of the last-level cache; 0: unknown */

int ac_scalable_vector_bits(void); /* of ARM's SVE, as this process has it; 0: there is none */
bool ac_has_bfmmla(void);          /* ARM's products of bf16 */
/* Asks for the registers of AMX's tiles, which a process of x86 has only then. False: not granted.
 */
bool ac_take_tiles(void);

#endif
