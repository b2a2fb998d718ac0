#include "textflag.h"

// Three functions in AVX2, two of them in AVX-512 as well, and one in that alone. Their contracts
// are in vector_amd64.go. Each has a version in Go that tests run beside it, on all characters,
// at every offset and on fuzzed texts:
//
//	validBlocks256, validBlocks512   modelValid (vector_model_test.go), with the same tables
//	stringStop256, stringStop512     stringStopByBytes (vector_amd64_test.go)
//	escapedBytes                     the table spellings (quote.go)
//	quoteBlocks512                   the loop over bytes of AppendQuote (quote.go)
//
// Where a comment numbers the bytes of a register, byte 0 has the lowest
// address. VPMOVMSKB makes a mask of a register: bit n is the top bit of byte n.

// TABLE defines 16 bytes, which are kept in both halves of a register. VPSHUFB
// looks each byte of an index up in them by its low four bits, and finds 0 for
// one with its top bit set.
#define TABLE(name, low, high) \
	DATA name<>+0(SB)/8, $low \
	DATA name<>+8(SB)/8, $high \
	GLOBL name<>(SB), RODATA|NOPTR, $16

// What may be wrong with two bytes that follow each other, looked up by the high
// and the low half of the first and by the high half of the second. The fault
// is there if all three say so.
//
//	01 a lead byte, and no continuation behind it
//	02 ASCII, and a continuation behind it
//	04 E0 and 80-9F: overlong
//	08 F4 and 90-BF, or F5-FF and 90-BF: beyond U+10FFFF
//	10 ED and A0-BF: a surrogate
//	20 C0 or C1: overlong
//	40 F0 and 80-8F: overlong; F5-FF and 80-8F: beyond U+10FFFF
//	80 two continuations: right if they belong to a lead byte before them
TABLE(firstHigh, 0x0202020202020202, 0x4915012180808080)
TABLE(firstLow, 0xcbcbcb8b8383a3e7, 0xcbcbdbcbcbcbcbcb)
TABLE(secondHigh, 0x0101010101010101, 0x01010101babaaee6)

// The most that the last bytes of a text may be, lest its last character be cut
// short: no lead byte of four, three or two bytes in the last three.
DATA lastMost<>+0(SB)/8, $0xffffffffffffffff
DATA lastMost<>+8(SB)/8, $0xffffffffffffffff
DATA lastMost<>+16(SB)/8, $0xffffffffffffffff
DATA lastMost<>+24(SB)/8, $0xbfdfefffffffffff
GLOBL lastMost<>(SB), RODATA|NOPTR, $32

// The letters of the simple escapes, by their halves. Each high half that some
// have is a bit. The bit 80 is that of the control characters, which have no
// low half here.
TABLE(letterHigh, 0x0804020000018080, 0x0000000000000000)
TABLE(letterLow, 0x00040008000d0000, 0x0104000200000000)

// BYTE defines a byte that is broadcast to a whole register.
#define BYTE(name, value) \
	DATA name<>(SB)/1, $value \
	GLOBL name<>(SB), RODATA|NOPTR, $1

BYTE(lowHalf, 0x0f)
BYTE(topBit, 0x80)
BYTE(belowLead3, 0x60) // 80 is left of E0, the least lead byte of three
BYTE(belowLead4, 0x70) // 80 is left of F0, the least lead byte of four
BYTE(quote, 0x22)
BYTE(backslash, 0x5c)
BYTE(lastControl, 0x1f)

// func validBlocks256(data []byte) bool
//
//	SI next byte    DI end of data    DX last place where a block can begin
//	Y0 this block   Y1 the block before it   Y2 to Y5 scratch   Y6 faults
//	Y8 to Y13 constants
TEXT ·validBlocks256(SB), NOSPLIT, $0-25
	MOVQ data_base+0(FP), SI
	MOVQ data_len+8(FP), DX
	LEAQ (SI)(DX*1), DI

	// Pass the ASCII at the head. Of mixed text, where it ends cannot be
	// predicted, so there is no going back to this loop.
	LEAQ -64(DI), DX
ascii:
	CMPQ      SI, DX
	JHI       mixed
	VMOVDQU   (SI), Y0
	VPOR      32(SI), Y0, Y0
	VPMOVMSKB Y0, AX
	TESTL     AX, AX
	JNZ       mixed
	ADDQ      $64, SI
	JMP       ascii

mixed:
	LEAQ           -32(DI), DX
	VPXOR          Y1, Y1, Y1
	VPXOR          Y6, Y6, Y6
	VBROADCASTI128 firstHigh<>(SB), Y8
	VBROADCASTI128 firstLow<>(SB), Y9
	VBROADCASTI128 secondHigh<>(SB), Y10
	VPBROADCASTB   lowHalf<>(SB), Y11
	VPBROADCASTB   belowLead3<>(SB), Y12
	VPBROADCASTB   belowLead4<>(SB), Y13
	VPBROADCASTB   topBit<>(SB), Y14

next:
	CMPQ    SI, DX
	JHI     tail
	VMOVDQU (SI), Y0

block:
	// Y3 is the block moved up by a byte: for each byte the one before it.
	// VPALIGNR works on halves, so that it needs the halves that come before
	// those of Y0, which are Y2.
	VPERM2I128 $0x21, Y0, Y1, Y2
	VPALIGNR   $15, Y2, Y0, Y3

	// Y4 is what is wrong with each pair: pairFaults.
	VPSRLW  $4, Y3, Y4
	VPAND   Y11, Y4, Y4
	VPSHUFB Y4, Y8, Y4
	VPAND   Y11, Y3, Y3
	VPSHUFB Y3, Y9, Y3
	VPAND   Y3, Y4, Y4
	VPSRLW  $4, Y0, Y5
	VPAND   Y11, Y5, Y5
	VPSHUFB Y5, Y10, Y5
	VPAND   Y5, Y4, Y4

	// Y5 is "expected" of modelValid: it gets the top bit where two bytes before is a lead of three or four,
	// or three bytes before one of four: there, and only there, two
	// continuations in a row are right.
	VPALIGNR $14, Y2, Y0, Y3
	VPALIGNR $13, Y2, Y0, Y5
	VPSUBUSB Y12, Y3, Y3
	VPSUBUSB Y13, Y5, Y5
	VPOR     Y3, Y5, Y5
	VPAND    Y14, Y5, Y5

	VPXOR   Y5, Y4, Y4
	VPOR    Y4, Y6, Y6
	VMOVDQA Y0, Y1
	ADDQ    $32, SI
	JMP     next

tail:
	// What is left is less than a block: check the last 32 bytes, some of them
	// for the second time.
	CMPQ    SI, DI
	JEQ     end
	MOVQ    DX, SI
	VMOVDQU (SI), Y0
	VMOVDQU -32(SI), Y1
	JMP     block

end:
	VMOVDQU  lastMost<>(SB), Y0
	VPSUBUSB Y0, Y1, Y1
	VPOR     Y1, Y6, Y6
	VPTEST   Y6, Y6
	SETEQ    ret+24(FP)
	VZEROUPPER
	RET

// MASK sets the register to to the mask of the 64 bytes whose halves were
// compared into a and b, and uses tmp.
#define MASK(a, b, tmp, to) \
	VPMOVMSKB a, to \
	VPMOVMSKB b, tmp \
	SHLQ      $32, tmp \
	ORQ       tmp, to

// LETTERS looks the bytes of from up by their halves: high gets the table's
// bits for the high half, and both those on which the two tables agree.
#define LETTERS(from, high, both) \
	VPSRLW  $4, from, high \
	VPAND   Y11, high, high \
	VPSHUFB high, Y8, high \
	VPSHUFB from, Y9, both \
	VPAND   high, both, both \
	VPCMPEQB Y10, both, both

// ESCAPES finds of the backslashes of a block, R8, and of whether its byte 0 is
// escaped, DX, which bytes are escaped, R9, and puts into DX whether byte 0 of the
// next block is. It uses R12 and R13, and R11, the bits 1, 3, 5 ...
//
// An escape is the first, third, fifth ... of backslashes in a row. To take them
// from R11 carries through the whole of a row; what changes, in R13, is the
// escapes, and the bit behind each row of odd length. R12 is the backslashes that
// are not escaped from before.
#define ESCAPES \
	ANDNQ R8, DX, R12 \
	LEAQ  (R12)(R12*1), R13 \
	ORQ   R11, R13 \
	SUBQ  R12, R13 \
	XORQ  R11, R13 \
	MOVQ  R8, R9 \
	ORQ   DX, R9 \
	XORQ  R13, R9 \
	ANDQ  R8, R13 \
	MOVQ  R13, DX \
	SHRQ  $63, DX

// CLOSER looks at the byte where a string may stop, the first of R10: it puts its
// offset into R12, and jumps to found unless it is that of an escape like \u00e9,
// with four digits, whose values are those of the table or negative, which may be
// no surrogate. It uses R8, R9, R13 and DI.
#define CLOSER \
	TZCNTQ R10, R12 \
	ADDQ   AX, R12 \
	CMPB   (SI)(R12*1), $'u' \
	JNE    found \
	LEAQ    4(R12), R13 \
	CMPQ    R13, BX \
	JGE     found \
	LEAQ    ·hexDigits(SB), R8 \
	MOVBLZX 1(SI)(R12*1), R9 \
	MOVBLSX (R8)(R9*1), R13 \
	CMPL    R13, $0xd \
	JEQ     found \
	MOVBLZX 2(SI)(R12*1), R9 \
	MOVBLSX (R8)(R9*1), DI \
	ORL     DI, R13 \
	MOVBLZX 3(SI)(R12*1), R9 \
	MOVBLSX (R8)(R9*1), DI \
	ORL     DI, R13 \
	MOVBLZX 4(SI)(R12*1), R9 \
	MOVBLSX (R8)(R9*1), DI \
	ORL     DI, R13 \
	TESTL   R13, R13 \
	JS      found

// func stringStop256(data []byte, i int) int
//
//	SI data   BX its length   AX i   CX how much of a block was seen before
//	DX whether byte 0 of the block is escaped
//	R8 backslashes   R9 escaped bytes   R10 where the string stops
//	R11 the bits 1, 3, 5 ...   DI, R12, R13 scratch; once R10 is known R8 and R9 too
//	Y0, Y1 the block   Y2 to Y5 scratch   Y8 to Y13 constants
TEXT ·stringStop256(SB), NOSPLIT, $0-40
	MOVQ           data_base+0(FP), SI
	MOVQ           data_len+8(FP), BX
	MOVQ           i+24(FP), AX
	XORL           DX, DX
	MOVQ           $0xaaaaaaaaaaaaaaaa, R11
	VBROADCASTI128 letterHigh<>(SB), Y8
	VBROADCASTI128 letterLow<>(SB), Y9
	VPXOR          Y10, Y10, Y10
	VPBROADCASTB   lowHalf<>(SB), Y11
	VPBROADCASTB   quote<>(SB), Y12
	VPBROADCASTB   backslash<>(SB), Y13

nextBlock:
	MOVQ BX, R12
	SUBQ AX, R12
	JLE  none
	LEAQ (SI)(AX*1), DI
	XORL CX, CX
	CMPQ R12, $64
	JGE  whole

	// Less than a block is left: take the last 64 bytes, and shift those out
	// that lie before i.
	LEAQ -64(SI)(BX*1), DI
	MOVQ $64, CX
	SUBQ R12, CX

whole:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1

	VPCMPEQB Y13, Y0, Y2
	VPCMPEQB Y13, Y1, Y3
	MASK(Y2, Y3, R12, R8)
	SHRXQ CX, R8, R8

	ESCAPES
	SHLXQ CX, R9, R9

	// It stops at controls, at quotes that are not escaped, and, for now, at
	// escaped bytes that are no letters.
	LETTERS(Y0, Y2, Y4)
	LETTERS(Y1, Y3, Y5)
	MASK(Y4, Y5, R12, R13)
	ANDQ R9, R13
	MASK(Y2, Y3, R12, R10)
	ORQ  R13, R10
	VPCMPEQB Y12, Y0, Y2
	VPCMPEQB Y12, Y1, Y3
	MASK(Y2, Y3, R12, R13)
	ANDNQ R13, R9, R13
	ORQ   R13, R10
	SHRXQ CX, R10, R10

	TESTQ R10, R10
	JNZ   stop

pass:
	ADDQ $64, AX
	JMP  nextBlock

stop:
	CLOSER
	BLSRQ   R10, R10
	JNZ     stop
	JMP     pass

found:
	MOVQ R12, ret+32(FP)
	VZEROUPPER
	RET

none:
	MOVQ BX, ret+32(FP)
	VZEROUPPER
	RET

// func validBlocks512(data []byte) bool
//
//	SI next byte    DI end of data    DX last place where a whole block can begin
//	Z0 this block   Z1 the block before it   Z2 to Z5 scratch   Z6 faults
//	Z8 to Z14 constants   K1 scratch
//
// It is validBlocks256 in blocks of 64 bytes, but for the end: what is left there,
// which may be nothing, is filled up with zeros, behind which no character that
// was cut short goes on.
TEXT ·validBlocks512(SB), NOSPLIT, $0-25
	MOVQ data_base+0(FP), SI
	MOVQ data_len+8(FP), DX
	LEAQ (SI)(DX*1), DI
	LEAQ -64(DI), DX

ascii512:
	CMPQ      SI, DX
	JHI       mixed512
	VMOVDQU64 (SI), Z0
	VPMOVB2M  Z0, K1
	KTESTQ    K1, K1
	JNE       mixed512
	ADDQ      $64, SI
	JMP       ascii512

mixed512:
	VPXORQ          Z1, Z1, Z1
	VPXORQ          Z6, Z6, Z6
	VBROADCASTI32X4 firstHigh<>(SB), Z8
	VBROADCASTI32X4 firstLow<>(SB), Z9
	VBROADCASTI32X4 secondHigh<>(SB), Z10
	VPBROADCASTB    lowHalf<>(SB), Z11
	VPBROADCASTB    belowLead3<>(SB), Z12
	VPBROADCASTB    belowLead4<>(SB), Z13
	VPBROADCASTB    topBit<>(SB), Z14

next512:
	CMPQ      SI, DX
	JHI       tail512
	VMOVDQU64 (SI), Z0

block512:
	// Z2 has, for each quarter of Z0, the quarter before it.
	VALIGNQ    $6, Z1, Z0, Z2
	VPALIGNR   $15, Z2, Z0, Z3
	VPSRLW     $4, Z3, Z4
	VPANDQ     Z11, Z4, Z4
	VPSHUFB    Z4, Z8, Z4
	VPANDQ     Z11, Z3, Z3
	VPSHUFB    Z3, Z9, Z3
	VPSRLW     $4, Z0, Z5
	VPANDQ     Z11, Z5, Z5
	VPSHUFB    Z5, Z10, Z5
	VPTERNLOGQ $0x80, Z5, Z3, Z4 // Z4 AND Z3 AND Z5

	VPALIGNR   $14, Z2, Z0, Z3
	VPALIGNR   $13, Z2, Z0, Z5
	VPSUBUSB   Z12, Z3, Z3
	VPSUBUSB   Z13, Z5, Z5
	VPTERNLOGQ $0xa8, Z14, Z3, Z5 // (Z5 OR Z3) AND Z14
	VPTERNLOGQ $0xf6, Z5, Z4, Z6  // Z6 OR (Z4 XOR Z5)
	VMOVDQA64  Z0, Z1
	ADDQ       $64, SI
	JMP        next512

tail512:
	CMPQ        SI, DI
	JHI         end512
	MOVQ        DI, CX
	SUBQ        SI, CX
	MOVQ        $-1, AX
	BZHIQ       CX, AX, AX
	KMOVQ       AX, K1
	VMOVDQU8.Z  (SI), K1, Z0
	JMP         block512

end512:
	VPTESTMB Z6, Z6, K1
	KTESTQ   K1, K1
	SETEQ    ret+24(FP)
	VZEROUPPER
	RET

// func stringStop512(data []byte, i int) int
//
//	SI data   BX its length   AX i   CX which bytes of the block there are
//	Z0 the block   Z2, Z4 scratch   Z8 to Z13 constants   K1 scratch
//
// All else is as in stringStop256.
TEXT ·stringStop512(SB), NOSPLIT, $0-40
	MOVQ            data_base+0(FP), SI
	MOVQ            data_len+8(FP), BX
	MOVQ            i+24(FP), AX
	XORL            DX, DX
	MOVQ            $-1, CX
	MOVQ            $0xaaaaaaaaaaaaaaaa, R11
	VBROADCASTI32X4 letterHigh<>(SB), Z8
	VBROADCASTI32X4 letterLow<>(SB), Z9
	VPBROADCASTB    lowHalf<>(SB), Z11
	VPBROADCASTB    quote<>(SB), Z12
	VPBROADCASTB    backslash<>(SB), Z13

nextBlock512:
	MOVQ      BX, R12
	SUBQ      AX, R12
	JLE       none
	CMPQ      R12, $64
	JLT       part512
	VMOVDQU64 (SI)(AX*1), Z0

block512:
	VPCMPEQB Z13, Z0, K1
	KMOVQ    K1, R8
	ESCAPES

	VPSRLW    $4, Z0, Z2
	VPANDQ    Z11, Z2, Z2
	VPSHUFB   Z2, Z8, Z2
	VPSHUFB   Z0, Z9, Z4
	VPTESTNMB Z2, Z4, K1 // no letters
	KMOVQ     K1, R13
	ANDQ      R9, R13
	VPMOVB2M  Z2, K1     // controls
	KMOVQ     K1, R10
	ORQ       R13, R10
	VPCMPEQB  Z12, Z0, K1
	KMOVQ     K1, R13
	ANDNQ     R13, R9, R13
	ORQ       R13, R10
	ANDQ      CX, R10
	JNZ       stop

pass:
	ADDQ $64, AX
	JMP  nextBlock512

part512:
	BZHIQ      R12, CX, CX
	KMOVQ      CX, K1
	VMOVDQU8.Z (SI)(AX*1), K1, Z0
	JMP        block512

stop:
	CLOSER
	BLSRQ R10, R10
	JNZ   stop
	JMP   pass

found:
	MOVQ R12, ret+32(FP)
	VZEROUPPER
	RET

none:
	MOVQ BX, ret+32(FP)
	VZEROUPPER
	RET

// func escapedBytes(block *[64]byte) uint64
//
//	SI block   Y0, Y1 its halves   Y8 to Y10 what to look for
TEXT ·escapedBytes(SB), NOSPLIT, $0-16
	MOVQ         block+0(FP), SI
	VMOVDQU      (SI), Y0
	VMOVDQU      32(SI), Y1
	VPBROADCASTB quote<>(SB), Y8
	VPBROADCASTB backslash<>(SB), Y9
	VPBROADCASTB lastControl<>(SB), Y10

	VPCMPEQB Y8, Y0, Y2
	VPCMPEQB Y8, Y1, Y3
	VPCMPEQB Y9, Y0, Y4
	VPCMPEQB Y9, Y1, Y5
	VPOR     Y4, Y2, Y2
	VPOR     Y5, Y3, Y3
	VPMINUB  Y10, Y0, Y4 // a control is the lesser of itself and the last control
	VPMINUB  Y10, Y1, Y5
	VPCMPEQB Y4, Y0, Y4
	VPCMPEQB Y5, Y1, Y5
	VPOR     Y4, Y2, Y2
	VPOR     Y5, Y3, Y3
	MASK(Y2, Y3, CX, AX)
	MOVQ     AX, ret+8(FP)
	VZEROUPPER
	RET

// The letters of the escapes that control characters have, by their low halves:
// \b, \t, \n, \f and \r.
TABLE(controlLetter, 0x0000000000000000, 0x00007266006e7462)

// func quoteBlocks512(dst, text []byte) (written, read int)
//
//	DI next byte of dst   SI next byte of text   CX how many are left
//	R8 bytes to be escaped   R9 where to stop   R12 which bytes of the block there are
//	R10, R13 the bits 0, 2, 4 ... and 1, 3, 5 ...   AX, DX scratch   K7 is R12
//	Y0 the block   Z1 pairs of a backslash and a byte   Y2 letters   Y8 to Y12, Z13 constants
TEXT ·quoteBlocks512(SB), NOSPLIT, $0-64
	MOVQ            dst_base+0(FP), DI
	MOVQ            text_base+24(FP), SI
	MOVQ            text_len+32(FP), CX
	MOVQ            $0x5555555555555555, R10
	MOVQ            $0xaaaaaaaaaaaaaaaa, R13
	MOVL            $-1, R12
	KMOVD           R12, K7
	VBROADCASTI128  controlLetter<>(SB), Y8
	VPBROADCASTB    quote<>(SB), Y9
	VPBROADCASTB    backslash<>(SB), Y10
	VPBROADCASTB    lastControl<>(SB), Y11
	VPBROADCASTB    lowHalf<>(SB), Y12
	VPMOVZXBW       Y10, Z13

nextHalf:
	TESTQ CX, CX
	JLE   quoted
	CMPQ  CX, $32
	JGE   wholeHalf
	BZHIL CX, R12, R12
	KMOVD R12, K7

wholeHalf:
	VMOVDQU8.Z (SI), K7, Y0
	VPCMPUB    $2, Y11, Y0, K7, K3 // controls
	VPCMPUB    $2, Y12, Y0, K3, K4
	VPSHUFB    Y0, Y8, Y2
	VPTESTMB   Y2, Y2, K4, K4      // controls with a letter
	VMOVDQU8   Y2, K4, Y0
	VPCMPEQB   Y9, Y0, K1
	VPCMPEQB   Y10, Y0, K2
	KORD       K1, K2, K1
	KORD       K1, K4, K1
	KMOVD      K1, R8
	KANDND     K3, K4, K3
	KMOVD      K3, R9

	// Byte n becomes two: the backslash, which is left out unless it is escaped, and
	// itself.
	VPMOVZXBW Y0, Z1
	VPSLLW    $8, Z1, Z1
	VPORQ     Z13, Z1, Z1
	TESTL     R9, R9
	JNZ       stopHalf

writeHalf:
	PDEPQ         R10, R8, R8
	PDEPQ         R13, R12, DX
	ORQ           R8, DX
	KMOVQ         DX, K1
	VPCOMPRESSB.Z Z1, K1, Z1
	VMOVDQU64     Z1, (DI)
	POPCNTQ       DX, DX
	ADDQ          DX, DI
	POPCNTL       R12, AX
	ADDQ          AX, SI
	SUBQ          AX, CX
	JMP           nextHalf

stopHalf:
	// Write what comes before that byte, and have nothing left.
	BLSMSKL R9, R9
	SHRL    $1, R9
	ANDL    R9, R12
	ANDL    R12, R8
	POPCNTL R12, CX
	JMP     writeHalf

quoted:
	SUBQ dst_base+0(FP), DI
	SUBQ text_base+24(FP), SI
	MOVQ DI, written+48(FP)
	MOVQ SI, read+56(FP)
	VZEROUPPER
	RET
