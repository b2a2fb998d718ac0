// The one function of bcryptprimitives.dll that programs of Go call, for wine 8,
// which lacks it.
#include <stddef.h>

unsigned char SystemFunction036(void *data, unsigned long size);

__declspec(dllexport) int ProcessPrng(unsigned char *data, size_t size) {
	return SystemFunction036(data, size);
}
