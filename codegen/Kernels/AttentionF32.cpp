//===- AttentionF32.cpp - f32 flash attention -----------------------------===//

#include "codegen/Kernels/AttentionF32.h"
#include "codegen/Kernels/VectorMath.h"

#include <algorithm>
#include <cstddef>
#include <limits>

using namespace encast;
using namespace Xbyak;

static constexpr int kFloatBytes = sizeof(float);
static constexpr int kPlane = int(kPanelColumns); // dims of a plane
static constexpr int kPlaneRowBytes = kPlane * kFloatBytes;
static constexpr int kQuadBytes = 16; // a 128-bit lane: four floats
// Keys in a round of the loop over the keys of a value tile.
static constexpr int kUnrollKeys = 4;

static constexpr double kLog2E = 1.4426950408889634;

/// Of a column in a row, and of a row in a plane.
static int floatOffset(int column) { return column * kFloatBytes; }
static int planeOffset(int row) { return row * kPlaneRowBytes; }

namespace {
/// 8-byte places on the stack.
enum Local {
  // Of the lane that the next block begins with: offsets of its rows of q and
  // out, its head, its position, and how many lanes there are from it on.
  QueryRow,
  OutRow,
  Head,
  Position,
  LanesLeft,
  Scores,    // S^T
  GroupSize, // blocks that share a sweep over the keys
  BlocksLeft,
  RangeFirst,  // first key of the group,
  RangeEnd,    // and the one behind its last
  SharedFirst, // The keys that all lanes see, if there are any.
  SharedEnd,
  LocalCount
};
} // namespace

AttentionF32::AttentionF32(const KernelRow &row, const AttentionShape &shape)
    : VectorAssembler(row.vectorBytes), shape(shape),
      maxVectors(isAvx512() && hasWindow() ? 2 : 3),
      oOffset(int(shape.headSize) * maxVectors * vectorBytes),
      maxOffset(2 * oOffset),
      newMaxOffset(maxOffset + maxVectors * vectorBytes),
      sumOffset(newMaxOffset + maxVectors * vectorBytes),
      positionOffset(sumOffset + maxVectors * vectorBytes),
      queryRowOffset(positionOffset + maxVectors * vectorBytes),
      outRowOffset(queryRowOffset + 2 * maxVectors * vectorBytes),
      stateBytes(outRowOffset + 2 * maxVectors * vectorBytes),
      maxGroupSize(hasWindow()
                       ? 1
                       : int(kAttentionQueryGroup) / (maxVectors * lanes())) {}

int64_t AttentionF32::workspaceBytes() const {
  const int64_t scoreBytes = kAttentionKeyBlock * maxVectors * vectorBytes;
  const int64_t bytes = int64_t(maxGroupSize) * stateBytes + scoreBytes;
  return (bytes + 63) / 64 * 64;
}

AttentionF32::Block AttentionF32::blockOf(int vectors) const {
  // One vector wide, a tile needs more rows for as many chains.
  const int rows = isAvx512() ? 8 : 4;
  return {vectors, vectors == 1 ? 2 * rows : rows};
}

bool AttentionF32::generate(std::vector<uint8_t> &code, std::string &error) {
  enter(LocalCount);
  mov(kvPlaneBytes, ptr[args + offsetof(AttentionArgs, kvPlaneBytes)]);
  mov(state, ptr[args + offsetof(AttentionArgs, workspace)]);
  add(state, maxGroupSize * stateBytes);
  mov(local(Scores), state);
  for (Local start : {QueryRow, OutRow, Head})
    mov(local(start), 0);
  imul(temp, ptr[args + offsetof(AttentionArgs, queries)],
       int(shape.queryHeads));
  mov(local(LanesLeft), temp);
  if (hasWindow()) {
    mov(temp, ptr[args + offsetof(AttentionArgs, position)]);
    mov(local(Position), temp);
  }

  Label nextGroup, done;
  L(nextGroup);
  for (int vectors = maxVectors; vectors > 0; --vectors) {
    Label narrower;
    cmp(local(LanesLeft), (vectors - 1) * lanes());
    jle(narrower);
    emitGroup(blockOf(vectors));
    cmp(local(LanesLeft), 0);
    jle(done);
    jmp(nextGroup);
    L(narrower);
  }
  L(done);
  leave();
  return finish(code, error);
}

void AttentionF32::forEachBlock(const std::function<void()> &body) {
  Label nextBlock;
  mov(temp, local(GroupSize));
  mov(local(BlocksLeft), temp);
  mov(state, ptr[args + offsetof(AttentionArgs, workspace)]);
  L(nextBlock);
  body();
  add(state, stateBytes);
  dec(local(BlocksLeft));
  jnz(nextBlock);
}

/// A group of full blocks, or one that is narrower or has lanes missing.
void AttentionF32::emitGroup(Block block) {
  Label sized;
  mov(local(GroupSize), 1);
  if (block.vectors == maxVectors) {
    for (int size = maxGroupSize; size > 1; --size) {
      Label smaller;
      cmp(local(LanesLeft), size * block.vectors * lanes());
      jl(smaller);
      mov(local(GroupSize), size);
      jmp(sized);
      L(smaller);
    }
    L(sized);
  }
  forEachBlock([&] { emitQueriesIn(block); });

  emitKeyRange(block);
  Label nextKeys;
  L(nextKeys);
  lea(blockKeys, ptr[firstKey + int(kAttentionKeyBlock)]);
  and_(blockKeys, -int(kAttentionKeyBlock));
  cmp(blockKeys, local(RangeEnd));
  cmovg(blockKeys, local(RangeEnd));
  sub(blockKeys, firstKey);
  forEachBlock([&] {
    emitScores(block);
    emitRescale(block);
    emitSoftmax(block);
    emitValues(block);
  });
  add(firstKey, blockKeys);
  imul(blockKeys, blockKeys, kPlaneRowBytes);
  add(kBlock, blockKeys);
  add(vBlock, blockKeys);
  cmp(firstKey, local(RangeEnd));
  jl(nextKeys);

  forEachBlock([&] { emitOut(block); });
}

/// Points to the first key of the group. With a window the group is one block,
/// whose keys are those of any lane, or the last one, masked, if no lane sees a
/// key.
void AttentionF32::emitKeyRange(Block block) {
  mov(kBlock, ptr[args + offsetof(AttentionArgs, k)]);
  mov(vBlock, ptr[args + offsetof(AttentionArgs, v)]);
  mov(temp, ptr[args + offsetof(AttentionArgs, keys)]);
  mov(local(RangeEnd), temp);
  xor_(firstKey, firstKey);
  if (hasWindow()) {
    const int window = int(shape.window);
    const int lastLane = block.vectors * lanes() - 1;
    const Reg64 end = step;
    mov(state, ptr[args + offsetof(AttentionArgs, workspace)]);
    movsxd(rowPtr, dword[state + positionOffset]);
    movsxd(end, dword[state + positionOffset + floatOffset(lastLane)]);
    mov(temp, end);
    sub(temp, window);
    mov(local(SharedFirst), temp);
    lea(temp, ptr[rowPtr + window + 1]);
    mov(local(SharedEnd), temp);

    sub(rowPtr, window);
    cmp(rowPtr, firstKey);
    cmovg(firstKey, rowPtr);
    mov(temp, local(RangeEnd));
    dec(temp);
    cmp(firstKey, temp);
    cmovg(firstKey, temp);
    add(end, window + 1);
    cmp(end, local(RangeEnd));
    cmovg(end, local(RangeEnd));
    mov(local(RangeEnd), end);

    imul(temp, firstKey, kPlaneRowBytes);
    add(kBlock, temp);
    add(vBlock, temp);
  }
  mov(local(RangeFirst), firstKey);
}

void AttentionF32::forEachPlane(const std::function<void(int dims)> &body,
                                const std::function<void()> &advance) {
  const int planes = int(shape.headSize) / kPlane;
  const int dimsLeft = int(shape.headSize) % kPlane;
  if (planes > 0) {
    Label nextPlane;
    mov(planesLeft, planes);
    L(nextPlane);
    body(kPlane);
    advance();
    dec(planesLeft);
    jnz(nextPlane);
  }
  if (dimsLeft > 0)
    body(dimsLeft);
}

void AttentionF32::jumpIfLaterKeys(Label &target) {
  cmp(firstKey, local(RangeFirst));
  jne(target);
}

void AttentionF32::transpose4(const Vec (&r)[4], const Vec (&t)[4]) {
  vunpcklps(t[0], r[0], r[1]);
  vunpckhps(t[1], r[0], r[1]);
  vunpcklps(t[2], r[2], r[3]);
  vunpckhps(t[3], r[2], r[3]);
  vshufps(r[0], t[0], t[2], 0x44);
  vshufps(r[1], t[0], t[2], 0xee);
  vshufps(r[2], t[1], t[3], 0x44);
  vshufps(r[3], t[1], t[3], 0xee);
}

/// Writes rows and positions of the lanes of a block to its state. Lanes that
/// are missing repeat the last one.
void AttentionF32::emitLanes(Block block) {
  const int heads = int(shape.queryHeads);
  const int planes = int(shape.headSize + kPlane - 1) / kPlane;
  const int headBytes = int(shape.headSize) * kFloatBytes;
  const Reg64 queryRow = rowPtr, outRow = scorePtr, head = planesLeft,
              position = temp, left = rowsLeft, lane = step;
  const Reg64 toNextHead = planePtr, toNextQuery = vectorPtr; // in q
  mov(toNextQuery, kPlaneRowBytes);
  if (heads > 1) {
    imul(toNextHead, ptr[args + offsetof(AttentionArgs, qPlaneBytes)], planes);
    imul(lane, toNextHead, heads - 1);
    sub(toNextQuery, lane);
  }
  mov(queryRow, local(QueryRow));
  mov(outRow, local(OutRow));
  mov(head, local(Head));
  mov(position, local(Position));
  mov(left, local(LanesLeft));
  xor_(lane, lane);
  Label nextLane, nextHead, advanced;
  L(nextLane);
  mov(qword[state + lane * 8 + queryRowOffset], queryRow);
  mov(qword[state + lane * 8 + outRowOffset], outRow);
  if (hasWindow())
    mov(dword[state + lane * kFloatBytes + positionOffset], position.cvt32());
  dec(left);
  jle(advanced);
  if (heads > 1) {
    inc(head);
    cmp(head, heads);
    jne(nextHead);
    xor_(head, head);
  }
  add(queryRow, toNextQuery);
  add(outRow, int(shape.ldo * kFloatBytes) - (heads - 1) * headBytes);
  inc(position);
  if (heads > 1) {
    jmp(advanced);
    L(nextHead);
    add(queryRow, toNextHead);
    add(outRow, headBytes);
  }
  L(advanced);
  inc(lane);
  cmp(lane, block.vectors * lanes());
  jb(nextLane);
  mov(local(QueryRow), queryRow);
  mov(local(OutRow), outRow);
  mov(local(Head), head);
  mov(local(Position), position);
  mov(local(LanesLeft), left);
}

/// Prepares the state of a block: q^T[dim][lane] = q[lane][dim] * scale *
/// log2(e).
void AttentionF32::emitQueriesIn(Block block) {
  emitLanes(block);
  const int quads = lanes() / 4; // 128-bit lanes of a vector
  const Vec scale = vec(4 * quads + 4);
  const Vec temps[4] = {vec(4 * quads), vec(4 * quads + 1), vec(4 * quads + 2),
                        vec(4 * quads + 3)};
  broadcastConstant(scale, float(double(shape.scale) * kLog2E));

  mov(step, ptr[args + offsetof(AttentionArgs, qPlaneBytes)]);
  for (int v = 0; v < block.vectors; ++v) {
    mov(planePtr, ptr[args + offsetof(AttentionArgs, q)]);
    lea(vectorPtr, vectorAt(state, v));
    forEachPlane(
        [&](int dims) {
          // As many columns as a vector has lanes at a time: quads * 4.
          for (int first = 0; first < dims; first += lanes()) {
            const int groups = std::min(quads, (dims - first + 3) / 4);
            for (int lane = 0; lane < lanes(); ++lane) {
              mov(temp,
                  qword[state + (queryRowOffset + (v * lanes() + lane) * 8)]);
              for (int group = 0; group < groups; ++group)
                insertQuad(
                    vec(4 * group + lane % 4),
                    ptr[planePtr + temp + floatOffset(first + 4 * group)],
                    lane / 4);
            }
            for (int group = 0; group < groups; ++group) {
              const Vec rows[4] = {vec(4 * group), vec(4 * group + 1),
                                   vec(4 * group + 2), vec(4 * group + 3)};
              transpose4(rows, temps);
              for (int i = 0; i < 4; ++i) {
                const int dim = first + 4 * group + i;
                if (dim >= dims)
                  continue;
                vmulps(rows[i], rows[i], scale);
                vmovups(ptr[vectorPtr + rowOffset(block, dim)], rows[i]);
              }
            }
          }
        },
        [&] {
          add(planePtr, step);
          add(vectorPtr, kPlane * rowBytes(block));
        });
  }

  for (int v = 0; v < block.vectors; ++v) {
    broadcastConstant(vec(0), std::numeric_limits<float>::lowest());
    vmovups(vectorAt(state + maxOffset, v), vec(0));
  }
}

void AttentionF32::emitStep(Block block, int rows, const RegExp &rowSide,
                            int strideBytes, const RegExp &vectorSide) {
  for (int v = 0; v < block.vectors; ++v)
    vmovups(spare(block, rows, v), vectorAt(vectorSide, v));
  const int broadcasts =
      std::min(4, registers() - rows * block.vectors - block.vectors);
  for (int row = 0; row < rows; ++row) {
    const Vec broadcast = spare(block, rows, block.vectors + row % broadcasts);
    vbroadcastss(broadcast, dword[rowSide + size_t(row) * size_t(strideBytes)]);
    for (int v = 0; v < block.vectors; ++v)
      vfmadd231ps(acc(block, row, v), broadcast, spare(block, rows, v));
  }
}

void AttentionF32::emitScores(Block block) {
  for (int v = 0; v < block.vectors; ++v) {
    vmovups(vec(0), vectorAt(state + maxOffset, v));
    vmovups(vectorAt(state + newMaxOffset, v), vec(0));
  }
  mov(rowPtr, kBlock);
  mov(scorePtr, local(Scores));

  Label nextTile, fullTilesDone;
  mov(rowsLeft, blockKeys);
  L(nextTile);
  cmp(rowsLeft, block.rows);
  jb(fullTilesDone);
  emitScoreTile(block, block.rows);
  sub(rowsLeft, block.rows);
  jmp(nextTile);
  L(fullTilesDone);
  for (int keys = block.rows / 2; keys > 0; keys /= 2) {
    Label absent;
    test(rowsLeft, keys);
    jz(absent);
    emitScoreTile(block, keys);
    sub(rowsLeft, keys);
    L(absent);
  }
}

/// Scores of `keys` keys at rowPtr into scorePtr; advances both. Fetches the
/// values of the keys into the L2: those of another core take long to come.
void AttentionF32::emitScoreTile(Block block, int keys) {
  for (int i = 0; i < keys * block.vectors; ++i)
    clear(vec(i));
  mov(planePtr, rowPtr);
  mov(vectorPtr, state);
  const Reg64 values = temp; // of the tile's keys
  forEachPlane(
      [&](int dims) {
        mov(values, planePtr);
        sub(values, kBlock);
        add(values, vBlock);
        for (int dim = 0; dim < dims; ++dim) {
          if (dim < keys)
            prefetcht1(ptr[values + planeOffset(dim)]);
          emitStep(block, keys, planePtr + floatOffset(dim), kPlaneRowBytes,
                   vectorPtr + rowOffset(block, dim));
        }
      },
      [&] {
        add(planePtr, kvPlaneBytes);
        add(vectorPtr, kPlane * rowBytes(block));
      });
  if (hasWindow())
    emitMask(block, keys);
  for (int v = 0; v < block.vectors; ++v) {
    const Vec max = spare(block, keys, v);
    const Address newMax = vectorAt(state + newMaxOffset, v);
    vmovups(max, newMax);
    for (int key = 0; key < keys; ++key)
      vmaxps(max, max, acc(block, key, v));
    vmovups(newMax, max);
  }
  for (int key = 0; key < keys; ++key)
    for (int v = 0; v < block.vectors; ++v)
      vmovups(vectorAt(scorePtr + rowOffset(block, key), v),
              acc(block, key, v));
  add(rowPtr, keys * kPlaneRowBytes);
  add(scorePtr, keys * rowBytes(block));
}

/// Makes the scores of keys beyond the window of a lane -infinity.
void AttentionF32::emitMask(Block block, int keys) {
  // The tile's keys begin rowsLeft before the end of the block of keys.
  Label masked, done;
  lea(temp, ptr[firstKey + blockKeys]);
  sub(temp, rowsLeft);
  cmp(temp, local(SharedFirst));
  jl(masked);
  lea(planePtr, ptr[temp + keys]);
  cmp(planePtr, local(SharedEnd));
  jle(done);

  L(masked);
  const auto distance = [&](int v) { return spare(block, keys, v); };
  const Vec free = spare(block, keys, block.vectors);
  broadcastInteger(free, temp.cvt32());
  for (int v = 0; v < block.vectors; ++v)
    vpsubd(distance(v), free, vectorAt(state + positionOffset, v));
  for (int key = 0; key < keys; ++key)
    for (int v = 0; v < block.vectors; ++v) {
      replaceBeyond(acc(block, key, v), distance(v), int32_t(shape.window),
                    -std::numeric_limits<float>::infinity(), free);
      if (key + 1 < keys)
        vpaddd(distance(v), distance(v), constant(int32_t(1)));
    }
  L(done);
}

/// Takes the new maxima over and rescales sums and o^T if any has grown. Of the
/// first block of keys the sums begin, and o^T has no values yet.
void AttentionF32::emitRescale(Block block) {
  Label grown, laterKeys, done;
  jumpIfLaterKeys(laterKeys);
  clear(vec(1));
  for (int v = 0; v < block.vectors; ++v) {
    vmovups(vec(0), vectorAt(state + newMaxOffset, v));
    vmovups(vectorAt(state + maxOffset, v), vec(0));
    vmovups(vectorAt(state + sumOffset, v), vec(1));
  }
  jmp(done);
  L(laterKeys);
  for (int v = 0; v < block.vectors; ++v) {
    const Vec newMax = vec(3 * v), oldMax = vec(3 * v + 1);
    vmovups(newMax, vectorAt(state + newMaxOffset, v));
    vmovups(oldMax, vectorAt(state + maxOffset, v));
    jumpIfAnyDiffers(newMax, oldMax, vec(9), temp, grown);
  }
  jmp(done);
  L(grown);
  std::vector<MathLane> factors;
  for (int v = 0; v < block.vectors; ++v) {
    const Vec newMax = vec(3 * v), factor = vec(3 * v + 1);
    const Address max = vectorAt(state + maxOffset, v);
    vmovups(newMax, vectorAt(state + newMaxOffset, v));
    vmovups(factor, max);
    vmovups(max, newMax);
    vsubps(factor, factor, newMax);
    factors.emplace_back(factor, newMax, vec(3 * v + 2));
  }
  emitExp2(*this, factors);
  for (int v = 0; v < block.vectors; ++v) {
    const Address sum = vectorAt(state + sumOffset, v);
    vmulps(vec(9), factors[v].value, sum);
    vmovups(sum, vec(9));
  }
  Label nextDim;
  lea(vectorPtr, ptr[state + oOffset]);
  mov(rowsLeft, int(shape.headSize));
  L(nextDim);
  for (int v = 0; v < block.vectors; ++v) {
    vmulps(vec(9), factors[v].value, vectorAt(vectorPtr, v));
    vmovups(vectorAt(vectorPtr, v), vec(9));
  }
  add(vectorPtr, rowBytes(block));
  dec(rowsLeft);
  jnz(nextDim);
  L(done);
}

/// Turns the scores of the block into 2^(score - maximum) and adds them up. The
/// last block of keys asks for the lines of out, a lane at a time.
void AttentionF32::emitSoftmax(Block block) {
  std::vector<MathLane> lanes;
  for (int v = 0; v < block.vectors; ++v) {
    lanes.emplace_back(vec(5 * v), vec(5 * v + 1), vec(5 * v + 2));
    vmovups(vec(5 * v + 3), vectorAt(state + maxOffset, v));
    vmovups(vec(5 * v + 4), vectorAt(state + sumOffset, v));
  }
  const Reg64 out = step, outRow = planePtr; // out is 0 until the last block
  lea(temp, ptr[firstKey + blockKeys]);
  xor_(out, out);
  cmp(temp, local(RangeEnd));
  cmove(out, ptr[args + offsetof(AttentionArgs, out)]);

  Label nextKey, notLast;
  mov(scorePtr, local(Scores));
  mov(rowsLeft, blockKeys);
  L(nextKey);
  test(out, out);
  jz(notLast);
  const int blockLanes = block.vectors * this->lanes();
  mov(outRow, blockLanes);
  cmp(outRow, rowsLeft);
  cmova(outRow, rowsLeft);
  mov(outRow, qword[state + outRow * 8 + outRowOffset - 8]);
  for (int dim = 0; dim < shape.headSize; dim += kPlane)
    prefetchw(ptr[out + outRow + floatOffset(dim)]);
  L(notLast);
  for (int v = 0; v < block.vectors; ++v) {
    vmovups(lanes[v].value, vectorAt(scorePtr, v));
    vsubps(lanes[v].value, lanes[v].value, vec(5 * v + 3));
  }
  emitExp2(*this, lanes);
  for (int v = 0; v < block.vectors; ++v) {
    vmovups(vectorAt(scorePtr, v), lanes[v].value);
    vaddps(vec(5 * v + 4), vec(5 * v + 4), lanes[v].value);
  }
  add(scorePtr, rowBytes(block));
  dec(rowsLeft);
  jnz(nextKey);
  for (int v = 0; v < block.vectors; ++v)
    vmovups(vectorAt(state + sumOffset, v), vec(5 * v + 4));
}

void AttentionF32::emitValues(Block block) {
  mov(planePtr, vBlock);
  lea(vectorPtr, ptr[state + oOffset]);
  forEachPlane(
      [&](int dims) {
        for (int first = 0; first < dims; first += block.rows)
          emitValueTile(block, first, std::min(block.rows, dims - first));
      },
      [&] {
        add(planePtr, kvPlaneBytes);
        add(vectorPtr, kPlane * rowBytes(block));
      });
}

/// o^T of `dims` dims of the plane += v^T P^T over the keys of the block. The
/// first tile of a plane fetches the next block of keys into the L2.
void AttentionF32::emitValueTile(Block block, int firstDim, int dims) {
  const RegExp o = vectorPtr + rowOffset(block, firstDim);
  Label laterKeys, started;
  jumpIfLaterKeys(laterKeys);
  for (int i = 0; i < dims * block.vectors; ++i)
    clear(vec(i));
  jmp(started);
  L(laterKeys);
  for (int dim = 0; dim < dims; ++dim)
    for (int v = 0; v < block.vectors; ++v)
      vmovups(acc(block, dim, v), vectorAt(o + rowOffset(block, dim), v));
  L(started);
  lea(rowPtr, ptr[planePtr + floatOffset(firstDim)]);
  mov(scorePtr, local(Scores));
  mov(rowsLeft, blockKeys);
  // The key that lies as far in the next block as the value at rowPtr in this
  // one; in this one, if it is the last. Of a window, the next lanes go on.
  const Reg64 nextBlockKey = step;
  if (firstDim == 0) {
    if (hasWindow()) {
      mov(nextBlockKey, blockKeys);
    } else {
      lea(temp, ptr[firstKey + blockKeys]);
      xor_(nextBlockKey, nextBlockKey);
      cmp(temp, local(RangeEnd));
      cmovl(nextBlockKey, blockKeys);
    }
    imul(nextBlockKey, nextBlockKey, kPlaneRowBytes);
    add(nextBlockKey, planePtr);
    sub(nextBlockKey, vBlock);
    add(nextBlockKey, kBlock);
  }

  Label nextRound, nextKey, done;
  sub(rowsLeft, kUnrollKeys);
  Label roundsDone;
  jl(roundsDone);
  align(32);
  L(nextRound);
  for (int key = 0; key < kUnrollKeys; ++key) {
    if (firstDim == 0)
      prefetcht1(ptr[nextBlockKey + planeOffset(key)]);
    emitStep(block, dims, rowPtr + planeOffset(key), kFloatBytes,
             scorePtr + rowOffset(block, key));
  }
  if (firstDim == 0)
    add(nextBlockKey, kUnrollKeys * kPlaneRowBytes);
  add(rowPtr, kUnrollKeys * kPlaneRowBytes);
  add(scorePtr, kUnrollKeys * rowBytes(block));
  sub(rowsLeft, kUnrollKeys);
  jge(nextRound);
  L(roundsDone);
  add(rowsLeft, kUnrollKeys);
  jz(done);
  L(nextKey);
  emitStep(block, dims, rowPtr, kFloatBytes, scorePtr);
  add(rowPtr, kPlaneRowBytes);
  add(scorePtr, rowBytes(block));
  dec(rowsLeft);
  jnz(nextKey);
  L(done);

  for (int dim = 0; dim < dims; ++dim)
    for (int v = 0; v < block.vectors; ++v)
      vmovups(vectorAt(o + rowOffset(block, dim), v), acc(block, dim, v));
}

/// out[lane][dim] = o^T[dim][lane] / sum[lane]. Lanes that are missing store
/// what they repeat once more. The largest score adds 1 to a sum; only that of
/// a lane that sees no key is less, 0, and so is its o^T.
void AttentionF32::emitOut(Block block) {
  const Vec rows[4] = {vec(0), vec(1), vec(2), vec(3)};
  const Vec temps[4] = {vec(4), vec(5), vec(6), vec(7)};
  const Vec inverse = vec(8);
  const Vec quad = vec(9);

  for (int v = 0; v < block.vectors; ++v) {
    const auto emitDims = [&](int dims) {
      for (int i = 0; i < dims; ++i)
        vmulps(rows[i], inverse, ptr[vectorPtr + rowOffset(block, i)]);
      transpose4(rows, temps);
      for (int lane = 0; lane < lanes(); ++lane) {
        mov(temp, qword[state + (outRowOffset + (v * lanes() + lane) * 8)]);
        storeQuad(planePtr + temp, rows[lane % 4], lane / 4, dims, quad);
      }
    };
    broadcastConstant(inverse, 1.0f);
    vmaxps(quad, inverse, vectorAt(state + sumOffset, v)); // keeps a NaN
    vdivps(inverse, inverse, quad);
    mov(planePtr, ptr[args + offsetof(AttentionArgs, out)]);
    lea(vectorPtr, vectorAt(state + oOffset, v));
    if (shape.headSize >= 4) {
      Label nextDims;
      mov(planesLeft, shape.headSize / 4);
      L(nextDims);
      emitDims(4);
      add(planePtr, kQuadBytes);
      add(vectorPtr, 4 * rowBytes(block));
      dec(planesLeft);
      jnz(nextDims);
    }
    if (shape.headSize % 4 > 0)
      emitDims(int(shape.headSize % 4));
  }
}
