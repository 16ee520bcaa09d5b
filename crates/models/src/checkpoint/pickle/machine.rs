//! The stack machine of Python's pickle, for the objects of a file of weights.
//!
//! Objects are numbers in one list, so that neither cycles nor depth matter; an instruction makes at most one object, and the
//! list of a tuple is taken from the stack, so memory grows with the length of the program alone.

use std::collections::HashMap;

/// Functions that are called with their arguments as told below; everything else is refused.
const ORDERED_DICT: &str = "collections.OrderedDict";
const REBUILD_TENSOR: [&str; 2] = ["torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"];
const REBUILD_PARAMETER: &str = "torch._utils._rebuild_parameter";
const SIZE: &str = "torch.Size";

/// Instructions of a program at most: those of a model with 100,000 tensors are half as many.
const MAX_STEPS: usize = 8 << 20;

/// An object by its number.
pub(super) type Id = usize;

/// An object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Object<'a> {
    /// None, a fraction, or a number of more than 64 bits: nothing that a tensor is made of.
    Other,
    Bool(bool),
    Number(i64),
    Text(&'a str),
    /// A tuple or a list.
    List(Vec<Id>),
    Dictionary(Vec<(Id, Id)>),
    /// A class or function by its name.
    Global(String),
    /// What the file has beside the pickle: a storage, by its description.
    Persistent(Id),
    /// A tensor, by the arguments of the function that rebuilds it.
    Tensor(Id),
}

/// The objects that a program has made.
#[derive(Debug, Default)]
pub(super) struct Objects<'a> {
    all: Vec<Object<'a>>,
}

impl<'a> Objects<'a> {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, id: Id) -> &Object<'a> {
        &self.all[id]
    }

    /// The elements of a list or tuple.
    pub(super) fn list(&self, id: Id) -> Option<&[Id]> {
        if let Object::List(list) = self.get(id) { Some(list) } else { None }
    }

    pub(super) fn text(&self, id: Id) -> Option<&'a str> {
        if let Object::Text(text) = self.get(id) { Some(text) } else { None }
    }

    pub(super) fn number(&self, id: Id) -> Option<i64> {
        if let Object::Number(number) = self.get(id) { Some(*number) } else { None }
    }
}

/// Runs the program at the beginning of `bytes`; returns its objects, the result, and the length of the program.
pub(super) fn run(bytes: &[u8]) -> Result<(Objects<'_>, Id, usize), String> {
    let mut machine = Machine {
        bytes,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        objects: Objects::default(),
    };
    let mut steps = 0;
    while !machine.step()? {
        steps += 1;
        if steps > MAX_STEPS {
            return Err(format!("a pickle of more than {MAX_STEPS} instructions"));
        }
    }
    let result = machine.pop()?;
    Ok((machine.objects, result, machine.at))
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Id>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    objects: Objects<'a>,
}

impl<'a> Machine<'a> {
    /// Runs one instruction; true if it was the last.
    fn step(&mut self) -> Result<bool, String> {
        let at = self.at;
        match self.u8()? {
            // PROTO, FRAME
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'.' => return Ok(true),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            // POP_MARK
            b'1' => drop(self.marked()?),
            // None, BINFLOAT
            b'N' => self.push(Object::Other),
            b'G' => {
                self.take(8)?;
                self.push(Object::Other);
            }
            // NEWTRUE, NEWFALSE
            0x88 => self.push(Object::Bool(true)),
            0x89 => self.push(Object::Bool(false)),
            // BININT, BININT1, BININT2, LONG1
            b'J' => {
                let number = i32::from_le_bytes(self.array()?);
                self.push(Object::Number(number.into()));
            }
            b'K' => {
                let number = self.u8()?;
                self.push(Object::Number(number.into()));
            }
            b'M' => {
                let number = u16::from_le_bytes(self.array()?);
                self.push(Object::Number(number.into()));
            }
            0x8a => self.long()?,
            // BINUNICODE, SHORT_BINUNICODE, SHORT_BINSTRING
            b'X' => {
                let length = self.u32()?;
                self.text(length)?;
            }
            0x8c | b'U' => {
                let length = self.u8()?;
                self.text(length.into())?;
            }
            // EMPTY_TUPLE, EMPTY_LIST, EMPTY_DICT
            b')' | b']' => self.push(Object::List(Vec::new())),
            b'}' => self.push(Object::Dictionary(Vec::new())),
            // TUPLE, TUPLE1, TUPLE2, TUPLE3
            b't' => {
                let list = self.marked()?;
                self.push(Object::List(list));
            }
            count @ 0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(count - 0x84)).ok_or_else(empty)?;
                let list = self.stack.split_off(from);
                self.push(Object::List(list));
            }
            // BINPUT, LONG_BINPUT, MEMOIZE, BINGET, LONG_BINGET
            b'q' => {
                let key = self.u8()?;
                self.remember(key.into())?;
            }
            b'r' => {
                let key = self.u32()?;
                self.remember(key)?;
            }
            0x94 => self.remember(self.memo.len() as u32)?,
            b'h' => {
                let key = self.u8()?;
                self.recall(key.into())?;
            }
            b'j' => {
                let key = self.u32()?;
                self.recall(key)?;
            }
            // GLOBAL, STACK_GLOBAL
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(module, name)?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Some(module), Some(name)) = (self.objects.text(module), self.objects.text(name)) else {
                    return Err(format!("no name of a function at byte {at}"));
                };
                self.global(module, name)?;
            }
            // BINPERSID
            b'Q' => {
                let id = self.pop()?;
                self.push(Object::Persistent(id));
            }
            // REDUCE, BUILD
            b'R' => self.call()?,
            b'b' => self.build(at)?,
            // APPEND, APPENDS, SETITEM, SETITEMS
            b'a' => {
                let value = self.pop()?;
                self.append(vec![value])?;
            }
            b'e' => {
                let values = self.marked()?;
                self.append(values)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let values = self.marked()?;
                self.set(&values)?;
            }
            other => {
                return Err(format!(
                    "instruction {other:#04x} at byte {at}, which files of weights do not have"
                ));
            }
        }
        Ok(false)
    }

    /// A name: of the few functions that are known, or of a kind of storage.
    fn global(&mut self, module: &str, name: &str) -> Result<(), String> {
        let full = format!("{module}.{name}");
        let is_storage = module.starts_with("torch") && name.ends_with("Storage");
        let is_known = [ORDERED_DICT, REBUILD_PARAMETER, SIZE].contains(&full.as_str())
            || REBUILD_TENSOR.contains(&full.as_str());
        if !is_storage && !is_known {
            return Err(format!("a pickle that names {full}, which Python would run: it is not read"));
        }
        self.push(Object::Global(full));
        Ok(())
    }

    fn call(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Object::Global(function) = self.objects.get(function) else {
            return Err("a call of no function".into());
        };
        let first = self.objects.list(arguments).and_then(|list| list.first().copied());
        match (function.as_str(), first) {
            (ORDERED_DICT, None) => self.push(Object::Dictionary(Vec::new())),
            (ORDERED_DICT, Some(pairs)) => {
                let pairs = self.objects.list(pairs).unwrap_or_default().iter();
                let pairs = pairs.map(|&pair| <[Id; 2]>::try_from(self.objects.list(pair)?).ok());
                let pairs: Option<Vec<[Id; 2]>> = pairs.collect();
                let pairs = pairs.ok_or("a dictionary of no pairs")?;
                self.push(Object::Dictionary(pairs.into_iter().map(|[key, value]| (key, value)).collect()));
            }
            (REBUILD_PARAMETER | SIZE, Some(value)) => self.stack.push(value),
            (name, Some(_)) if REBUILD_TENSOR.contains(&name) => self.push(Object::Tensor(arguments)),
            (name, _) => return Err(format!("a call of {name} with other arguments than a tensor's")),
        }
        Ok(())
    }

    /// Attributes of an object; those of a dictionary say nothing about tensors.
    fn build(&mut self, at: usize) -> Result<(), String> {
        self.pop()?;
        let object = *self.stack.last().ok_or_else(empty)?;
        match self.objects.get(object) {
            Object::Dictionary(_) => Ok(()),
            _ => Err(format!("attributes of an object at byte {at}, which files of weights do not have")),
        }
    }

    fn append(&mut self, values: Vec<Id>) -> Result<(), String> {
        let list = *self.stack.last().ok_or_else(empty)?;
        let Object::List(list) = &mut self.objects.all[list] else {
            return Err("elements of no list".into());
        };
        list.extend(values);
        Ok(())
    }

    fn set(&mut self, values: &[Id]) -> Result<(), String> {
        let dictionary = *self.stack.last().ok_or_else(empty)?;
        let Object::Dictionary(pairs) = &mut self.objects.all[dictionary] else {
            return Err("entries of no dictionary".into());
        };
        let (all, rest) = values.as_chunks::<2>();
        pairs.extend(all.iter().map(|[key, value]| (*key, *value)));
        if rest.is_empty() { Ok(()) } else { Err("a key without a value".into()) }
    }

    fn remember(&mut self, key: u32) -> Result<(), String> {
        let top = *self.stack.last().ok_or_else(empty)?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall(&mut self, key: u32) -> Result<(), String> {
        let id = *self.memo.get(&key).ok_or("an object that was not made before")?;
        self.stack.push(id);
        Ok(())
    }

    fn push(&mut self, object: Object<'a>) {
        self.stack.push(self.objects.all.len());
        self.objects.all.push(object);
    }

    fn pop(&mut self) -> Result<Id, String> {
        self.stack.pop().ok_or_else(empty)
    }

    /// What is on the stack above the last mark.
    fn marked(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().filter(|&mark| mark <= self.stack.len()).ok_or_else(empty)?;
        Ok(self.stack.split_off(mark))
    }

    fn long(&mut self) -> Result<(), String> {
        let length = self.u8()?;
        let bytes = self.take(length.into())?;
        let is_negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut all = [if is_negative { 0xff } else { 0 }; 8];
        if let Some(part) = all.get_mut(..bytes.len()) {
            part.copy_from_slice(bytes);
            self.push(Object::Number(i64::from_le_bytes(all)));
        } else {
            self.push(Object::Other);
        }
        Ok(())
    }

    fn text(&mut self, length: u32) -> Result<(), String> {
        let at = self.at;
        let text =
            std::str::from_utf8(self.take(length as usize)?).map_err(|_| format!("no UTF-8 at byte {at}"))?;
        self.push(Object::Text(text));
        Ok(())
    }

    /// The text up to a line break.
    fn line(&mut self) -> Result<&'a str, String> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\n').ok_or_else(ends)?;
        self.at += length + 1;
        std::str::from_utf8(&rest[..length]).map_err(|_| "a name that is no UTF-8".into())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let found =
            self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end)).ok_or_else(ends)?;
        self.at += count;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }
}

fn empty() -> String {
    "a pickle that takes from an empty stack".into()
}

fn ends() -> String {
    "a pickle that ends too early".into()
}
