/* CRC-32 of ZIP (polynomial 0x04c11db7, reflected). Long inputs build eight tables on the stack and take eight bytes a
   step (Kounavis and Berry, 2005, "slicing by 8"); short ones go nibble by nibble through sixteen constants. */
#include "base/zip.h"

enum { SLICED_FROM_BYTES = 32768 };

static uint32_t crc_short(uint32_t crc, const unsigned char *p, size_t bytes) {
    static const uint32_t nibble[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return crc;
}

static uint32_t crc_sliced(uint32_t crc, const unsigned char *p, size_t bytes) {
    uint32_t table[8][256];
    for (uint32_t i = 0; i < 256; i++) table[0][i] = crc_short(0, &(unsigned char){(unsigned char)i}, 1);
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
    for (; bytes >= 8; p += 8, bytes -= 8) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^ table[4][crc >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    return crc_short(crc, p, bytes);
}

uint32_t weft_crc32(uint32_t crc, const void *data, size_t bytes) {
    const unsigned char *p = data;
    return ~(bytes >= SLICED_FROM_BYTES ? crc_sliced(~crc, p, bytes) : crc_short(~crc, p, bytes));
}
