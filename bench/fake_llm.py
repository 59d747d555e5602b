#!/usr/bin/env python3
"""Fake LLM: OpenAI-compatible /v1/chat/completions and Anthropic /v1/messages, streaming + non-streaming.
Scripted by the LAST user text. Directives (any number, in order, anywhere in the last *real* user message):
  TOOL:<name>:<arg>            bash:<cmd> | read:<path> | write:<path>=<content> | edit:<path>=<old>=><new> | todo:<a;b;c> | task:<prompt> | glob/grep/list...
  JSONTOOL:<name>:<json>       raw tool args (to end of line)
  TEXT:<n>                     final text has n words
  SLOW:<ms>                    sleep ms between streamed chunks of the final text
  THINK                        emit reasoning
  ERR:<status>                 answer HTTP error
  SAY:<text to end of line>    final text
Directives are executed one per model step; number already done = number of assistant tool-calls since last user text.
Usage: fake_llm.py [port]   (default 4999). Log of requests: $FAKELLM_LOG (jsonl) if set.
"""
import sys, json, time, re, os, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import itertools
LOG=os.environ.get('FAKELLM_LOG')
ctr=itertools.count(1)
lock=threading.Lock()
DIR=re.compile(r'^[\s"]*(TOOL|JSONTOOL):([a-zA-Z_]+):(.*?)"?$', re.M)

def args_for(name,a):
    if name=='bash': return {"command":a,"description":"run "+a[:30]}
    if name=='read': return {"filePath":a}
    if name=='write':
        p,c=a.split('=',1); return {"filePath":p,"content":c.replace('\\n','\n')}
    if name=='edit':
        p,r=a.split('=',1); o,n=r.split('=>',1)
        return {"filePath":p,"oldString":o.replace('\\n','\n'),"newString":n.replace('\\n','\n')}
    if name in('todo','todowrite'):
        its=a.split(';'); st=['completed','in_progress','pending']
        return {"todos":[{"id":str(i+1),"content":t,"status":st[min(i,2)],"priority":"medium"} for i,t in enumerate(its)]}
    if name=='task': return {"description":"sub work","prompt":a.replace('\\n','\n'),"subagent_type":"general"}
    if name in('glob','grep'): return {"pattern":a}
    return {"input":a}

def plan(users_text, ntools, tools, is_title):
    """returns ('tool',name,args) or ('text',str,slow,think)"""
    if is_title: return ('text','Fake title: '+re.sub(r'\s+',' ',users_text)[:40],0,False)
    ds=[(m.group(1),m.group(2),m.group(3).strip()) for m in DIR.finditer(users_text)]
    m=re.search(r'SLOW:(\d+)',users_text); slow=int(m.group(1))/1000 if m else 0
    think='THINK' in users_text
    if ntools<len(ds):
        k,n,a=ds[ntools]
        n2={'todo':'todowrite'}.get(n,n)
        return ('tool',n2,json.loads(a) if k=='JSONTOOL' else args_for(n,a),slow,think)
    m=re.search(r'SAY:(.*)$',users_text,re.M)
    if m: return ('text',m.group(1),slow,think)
    m=re.search(r'TEXT:(\d+)',users_text)
    if m: return ('text',' '.join('word%d'%i for i in range(int(m.group(1)))),slow,think)
    return ('text','Hello from the fake model. You said: '+users_text[-80:],slow,think)

def text_of(c):
    if isinstance(c,str): return c
    if isinstance(c,list): return '\n'.join(p.get('text','') for p in c if p.get('type')=='text')
    return ''

class H(BaseHTTPRequestHandler):
    protocol_version='HTTP/1.1'
    def log_message(self,*a): pass
    def do_GET(self): self.js(200,{"object":"list","data":[{"id":"fake","object":"model"}]})
    def js(self,code,o):
        b=json.dumps(o).encode(); self.send_response(code); self.send_header('content-type','application/json'); self.send_header('content-length',str(len(b))); self.end_headers(); self.wfile.write(b)
    def sse_start(self):
        self.send_response(200); self.send_header('content-type','text/event-stream'); self.send_header('transfer-encoding','chunked'); self.end_headers()
    def chunk(self,s):
        b=s.encode(); self.wfile.write(b'%x\r\n'%len(b)+b+b'\r\n'); self.wfile.flush()
    def end(self): self.wfile.write(b'0\r\n\r\n'); self.wfile.flush()
    def do_POST(self):
        n=int(self.headers.get('content-length') or 0); raw=self.rfile.read(n)
        try: body=json.loads(raw)
        except Exception: return self.js(400,{"error":{"message":"bad json"}})
        if LOG:
            with lock, open(LOG,'a') as f: f.write(json.dumps({"path":self.path,"t":time.time(),"body":body})+'\n')
        try:
            if self.path.endswith('/messages'): self.anthropic(body)
            elif self.path.endswith('/chat/completions'): self.openai(body)
            else: self.js(404,{"error":{"message":"no route "+self.path}})
        except (BrokenPipeError,ConnectionResetError): pass
    def decide(self,sysmsg,msgs,tools):
        # msgs: list of (role, text, ntoolcalls, is_toolresult)
        last=''; ntools=0
        for role,text,nt,istr in msgs:
            if role=='user' and not istr and text.strip() and not text.strip().startswith('<system-reminder>'):
                last=text; ntools=0
            elif role=='assistant': ntools+=nt
        is_title='title generator' in sysmsg.lower() or 'Generate a title' in ' '.join(m[1] for m in msgs)
        m=re.search(r'ERR:(\d+)',last)
        if m and not is_title: return ('err',int(m.group(1)))
        return plan(last,ntools,tools,is_title)
    def openai(self,b):
        sysm=' '.join(text_of(m.get('content')) for m in b['messages'] if m['role']=='system')
        ms=[(m['role'],text_of(m.get('content')),len(m.get('tool_calls') or []),False) for m in b['messages'] if m['role']!='system']
        p=self.decide(sysm,ms,b.get('tools'))
        if p[0]=='err': return self.js(p[1],{"error":{"message":"fake error","type":"fake","code":str(p[1])}})
        cid='chatcmpl-%d'%next(ctr); mdl=b.get('model')
        usage={"prompt_tokens":len(json.dumps(b))//4,"completion_tokens":20,"total_tokens":len(json.dumps(b))//4+20}
        if not b.get('stream'):
            if p[0]=='tool':
                msg={"role":"assistant","content":None,"tool_calls":[{"id":"call_%d"%next(ctr),"type":"function","function":{"name":p[1],"arguments":json.dumps(p[2])}}]}; fr='tool_calls'
            else: msg={"role":"assistant","content":p[1]}; fr='stop'
            return self.js(200,{"id":cid,"object":"chat.completion","created":int(time.time()),"model":mdl,"choices":[{"index":0,"message":msg,"finish_reason":fr}],"usage":usage})
        self.sse_start()
        def ev(delta,fr=None,us=None):
            o={"id":cid,"object":"chat.completion.chunk","created":int(time.time()),"model":mdl,"choices":[{"index":0,"delta":delta,"finish_reason":fr}]}
            if us: o["usage"]=us
            self.chunk('data: '+json.dumps(o)+'\n\n')
        ev({"role":"assistant","content":""})
        if p[4] if p[0]=='tool' else p[3]: ev({"reasoning_content":"Let me think about "}); ev({"reasoning_content":"this request."})
        if p[0]=='tool':
            a=json.dumps(p[2]); h=len(a)//2
            ev({"tool_calls":[{"index":0,"id":"call_%d_%d"%(int(time.time()*1000),next(ctr)),"type":"function","function":{"name":p[1],"arguments":""}}]})
            ev({"tool_calls":[{"index":0,"function":{"arguments":a[:h]}}]}); ev({"tool_calls":[{"index":0,"function":{"arguments":a[h:]}}]})
            ev({},'tool_calls',usage)
        else:
            ws=re.findall(r'\S+\s*',p[1]) or ['']
            for w in ws:
                ev({"content":w})
                if p[2]: time.sleep(p[2])
            ev({},'stop',usage)
        self.chunk('data: [DONE]\n\n'); self.end()
    def anthropic(self,b):
        sysm=text_of(b.get('system'))
        ms=[]
        for m in b['messages']:
            c=m['content']; nt=0; istr=False
            if isinstance(c,list):
                nt=sum(1 for x in c if x.get('type')=='tool_use'); istr=any(x.get('type')=='tool_result' for x in c)
            ms.append((m['role'],text_of(c),nt,istr and not text_of(c).strip()))
        p=self.decide(sysm,ms,b.get('tools'))
        if p[0]=='err': return self.js(p[1],{"type":"error","error":{"type":"overloaded_error" if p[1]==529 else "api_error","message":"fake error"}})
        mid='msg_%d'%next(ctr); intok=len(json.dumps(b))//4
        if not b.get('stream'):
            c=[{"type":"tool_use","id":"toolu_%d"%next(ctr),"name":p[1],"input":p[2]}] if p[0]=='tool' else [{"type":"text","text":p[1]}]
            return self.js(200,{"id":mid,"type":"message","role":"assistant","model":b.get('model'),"content":c,"stop_reason":"tool_use" if p[0]=='tool' else "end_turn","stop_sequence":None,"usage":{"input_tokens":intok,"output_tokens":20}})
        self.sse_start()
        def ev(t,o): o={"type":t,**o}; self.chunk('event: %s\ndata: %s\n\n'%(t,json.dumps(o)))
        ev('message_start',{"message":{"id":mid,"type":"message","role":"assistant","model":b.get('model'),"content":[],"stop_reason":None,"stop_sequence":None,"usage":{"input_tokens":intok,"output_tokens":1,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}}})
        i=0
        if p[4] if p[0]=='tool' else p[3]:
            ev('content_block_start',{"index":i,"content_block":{"type":"thinking","thinking":"","signature":""}}); ev('content_block_delta',{"index":i,"delta":{"type":"thinking_delta","thinking":"Let me think."}}); ev('content_block_delta',{"index":i,"delta":{"type":"signature_delta","signature":"c2ln"}}); ev('content_block_stop',{"index":i}); i+=1
        if p[0]=='tool':
            ev('content_block_start',{"index":i,"content_block":{"type":"tool_use","id":"toolu_%d_%d"%(int(time.time()*1000),next(ctr)),"name":p[1],"input":{}}})
            a=json.dumps(p[2]); h=len(a)//2
            for x in (a[:h],a[h:]): ev('content_block_delta',{"index":i,"delta":{"type":"input_json_delta","partial_json":x}})
            ev('content_block_stop',{"index":i}); sr='tool_use'
        else:
            ev('content_block_start',{"index":i,"content_block":{"type":"text","text":""}})
            for w in re.findall(r'\S+\s*',p[1]) or ['']:
                ev('content_block_delta',{"index":i,"delta":{"type":"text_delta","text":w}})
                if p[2]: time.sleep(p[2])
            ev('content_block_stop',{"index":i}); sr='end_turn'
        ev('message_delta',{"delta":{"stop_reason":sr,"stop_sequence":None},"usage":{"output_tokens":20}}); ev('message_stop',{}); self.end()
class S(ThreadingHTTPServer):
    daemon_threads=True; request_queue_size=256
if __name__=='__main__':
    port=int(sys.argv[1]) if len(sys.argv)>1 else 4999
    S(('127.0.0.1',port),H).serve_forever()
