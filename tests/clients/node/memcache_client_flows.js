// Flows of the package memcache-client against one address: node memcache_client_flows.js HOST PORT.
// FLOWS_CA names a file with the authority of a server that speaks TLS. FLOWS_CERT and FLOWS_KEY are files with what the client shows
// to one that wants a certificate.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import memcacheClient from "memcache-client";
import { Cannot, address, runAll } from "./flows.js";

const { MemcacheClient } = memcacheClient;

function tls() {
  const { FLOWS_CA, FLOWS_CERT, FLOWS_KEY } = process.env;
  if (FLOWS_CA === undefined) return undefined;
  const [ca, cert, key] = [FLOWS_CA, FLOWS_CERT, FLOWS_KEY].map((file) => file && readFileSync(file));
  return { ca, cert, key };
}

function connect() {
  return new MemcacheClient({
    server: { server: address, maxConnections: 8 },
    cmdTimeout: 20_000,
    connectTimeout: 20_000,
    tls: tls(),
  });
}

const client = connect();

async function set(key, value, options) {
  assert.deepEqual(await client.set(key, value, options), ["STORED"]);
}

async function get(key) {
  return (await client.get(key))?.value;
}

async function holds(key, value) {
  assert.deepEqual(await get(key), value);
}

async function absent(key) {
  await holds(key, undefined);
}

// The client rejects with the server's word.
const refused = (answer, word) => assert.rejects(answer, (error) => error.message.startsWith(word));

await runAll({
  async "set and get"() {
    for (const value of ["value", "other"]) {
      await set("set:key", value);
      await holds("set:key", value);
    }
  },
  async "absent key"() {
    await absent("absent:key");
  },
  async "flags"() {
    // The client keeps the type in the flags.
    for (const value of [{ a: 1 }, 17, "text", Buffer.from([0, 255])]) {
      await set("flags:key", value);
      await holds("flags:key", value);
    }
  },
  async "multi-get"() {
    const wanted = Object.fromEntries(Array.from({ length: 300 }, (_, number) => [`multi:${number}`, `value ${number}`]));
    for (const [key, value] of Object.entries(wanted)) await set(key, value);
    const found = await client.get([...Object.keys(wanted), "multi:absent"]);
    assert.deepEqual(Object.fromEntries(Object.entries(found).map(([key, { value }]) => [key, value])), wanted);
  },
  async "add"() {
    assert.deepEqual(await client.add("add:key", "first"), ["STORED"]);
    await refused(client.add("add:key", "second"), "NOT_STORED");
    await holds("add:key", "first");
  },
  async "replace"() {
    await refused(client.replace("replace:key", "new"), "NOT_STORED");
    await set("replace:key", "old");
    assert.deepEqual(await client.replace("replace:key", "new"), ["STORED"]);
    await holds("replace:key", "new");
  },
  async "append and prepend"() {
    await refused(client.append("append:key", "-end"), "NOT_STORED");
    await refused(client.prepend("append:key", "start-"), "NOT_STORED");
    await set("append:key", "middle");
    assert.deepEqual(await client.append("append:key", "-end"), ["STORED"]);
    assert.deepEqual(await client.prepend("append:key", "start-"), ["STORED"]);
    await holds("append:key", "start-middle-end");
  },
  async "cas"() {
    await set("cas:key", "first");
    const { casUniq, value } = await client.gets("cas:key");
    assert.equal(value, "first");
    assert.deepEqual(await client.cas("cas:key", "second", { casUniq }), ["STORED"]);
    await refused(client.cas("cas:key", "third", { casUniq }), "EXISTS");
    await holds("cas:key", "second");
    await client.delete("cas:key");
    await refused(client.cas("cas:key", "third", { casUniq }), "NOT_FOUND");
  },
  async "incr and decr"() {
    await refused(client.incr("number:absent", 1), "NOT_FOUND");
    await set("number:key", "10");
    assert.equal(await client.incr("number:key", 5), "15");
    assert.equal(await client.decr("number:key", 3), "12");
    assert.equal(await client.decr("number:key", 100), "0");
  },
  async "incr of text"() {
    await set("text:key", "text");
    await refused(client.incr("text:key", 1), "CLIENT_ERROR cannot increment or decrement non-numeric value");
    await holds("text:key", "text");
  },
  async "touch"() {
    await refused(client.touch("touch:key", 100), "NOT_FOUND");
    await set("touch:key", "value");
    assert.deepEqual(await client.touch("touch:key", 100), ["TOUCHED"]);
    await holds("touch:key", "value");
    assert.deepEqual(await client.touch("touch:key", -1), ["TOUCHED"]);
    await absent("touch:key");
  },
  async "get and touch"() {
    await set("gat:key", "value");
    assert.equal((await client.retrieve("gat -1", "gat:key")).value, "value");
    assert.equal(await client.retrieve("gat 100", "gat:key"), undefined);
  },
  async "expired at once"() {
    await set("expired:key", "value", { lifetime: -1 });
    await absent("expired:key");
  },
  async "delete"() {
    await refused(client.delete("delete:key"), "NOT_FOUND");
    await set("delete:key", "value");
    assert.deepEqual(await client.delete("delete:key"), ["DELETED"]);
    await absent("delete:key");
  },
  async "noreply"() {
    // One after the other, so all of them go over the connection that is idle first.
    await client.set("noreply:key", "10", { noreply: true });
    await holds("noreply:key", "10");
    await client.incr("noreply:key", 5, { noreply: true });
    await client.append("noreply:key", "0", { noreply: true });
    await holds("noreply:key", "150");
    await client.add("noreply:key", "ignored", { noreply: true });
    await client.touch("noreply:key", 100, { noreply: true });
    await holds("noreply:key", "150");
    await client.delete("noreply:key", { noreply: true });
    await absent("noreply:key");
  },
  async "empty value"() {
    await set("empty:key", "");
    await holds("empty:key", "");
  },
  async "values like the protocol"() {
    const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    for (const text of ["END\r\n", "\r\n", "STORED\r\nEND\r\n", "VALUE key 0 3\r\nabc\r\n"]) {
      await set("binary:key", Buffer.from(text));
      await holds("binary:key", Buffer.from(text));
    }
    await set("binary:key", every);
    await holds("binary:key", every);
  },
  async "large value"() {
    const value = randomBytes(1_000_000);
    await set("large:key", value);
    await holds("large:key", value);
  },
  async "value too large"() {
    await refused(client.set("too-large:key", "v".repeat(2 << 20)), "SERVER_ERROR object too large for cache");
    await set("too-large:key", "value");
    await holds("too-large:key", "value");
  },
  async "longest key"() {
    const key = `longest:${"k".repeat(242)}`;
    await set(key, "value");
    await holds(key, "value");
  },
  async "key too long"() {
    // The client sends it. A server may take the value behind it for a command and answer twice, so the connection is not used again.
    const other = connect();
    await refused(other.set("k".repeat(251), "value"), "CLIENT_ERROR");
    other.shutdown();
    await set("too-long:key", "value");
    await holds("too-long:key", "value");
  },
  async "version"() {
    const [word, version] = await client.version();
    assert.equal(word, "VERSION");
    assert.match(version, /^1\./);
  },
  async "stats"() {
    const { STAT } = await client.cmd("stats");
    const names = new Set(STAT.map(([name]) => name));
    for (const name of ["pid", "uptime", "curr_connections", "cmd_get", "cmd_set"]) assert.ok(names.has(name), name);
  },
  async "concurrency"() {
    const worker = async (number) => {
      for (let turn = 0; turn < 250; turn++) {
        const [key, value] = [`concurrency:${number}:${turn % 10}`, `${number} of ${turn}`];
        await set(key, value);
        await holds(key, value);
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, number) => worker(number)));
  },
  async "flush"() {
    await set("flush:key", "value");
    assert.deepEqual(await client.cmd("flush_all"), ["OK"]);
    await absent("flush:key");
  },
});
client.shutdown();
